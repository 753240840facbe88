// quic-go as one more client of HTTP/3. Usage: quic-go-client HOST:PORT COMMAND ARGUMENTS; says in JSON what came.
//
//	download PATH MOVES   one GET; the client goes to another port so many times on the way
//	upload PATH BYTES     one POST
//	many PATH...          GETs at once
//	resume PATH           two connections; the second asks in 0-RTT
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

type told struct {
	Status  int    `json:"status"`
	Bytes   int64  `json:"bytes"`
	Sha256  string `json:"sha256"`
	Moved   int    `json:"moved"`
	Resumed bool   `json:"resumed"`
	Early   bool   `json:"early"`
}

// A connection and what it stands on.
type client struct {
	address string
	tls     *tls.Config
	quic    *quic.Conn
	h3      *http3.ClientConn
}

func udp() (*net.UDPConn, error) {
	return net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
}

func connect(ctx context.Context, address string, config *tls.Config) (*client, error) {
	socket, err := udp()
	if err != nil {
		return nil, err
	}
	peer, err := net.ResolveUDPAddr("udp4", address)
	if err != nil {
		return nil, err
	}
	transport := &quic.Transport{Conn: socket}
	connection, err := transport.DialEarly(ctx, peer, config, &quic.Config{})
	if err != nil {
		return nil, err
	}
	return &client{address, config, connection, (&http3.Transport{}).NewClientConn(connection)}, nil
}

func (c *client) ask(ctx context.Context, method, path string, content io.Reader, length int64) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "https://"+c.address+path, content)
	if err != nil {
		return nil, err
	}
	request.ContentLength = length
	return c.h3.RoundTrip(request)
}

// The same connection from another port.
func (c *client) move(ctx context.Context) error {
	socket, err := udp()
	if err != nil {
		return err
	}
	path, err := c.quic.AddPath(&quic.Transport{Conn: socket})
	if err != nil {
		return err
	}
	if err := path.Probe(ctx); err != nil {
		return err
	}
	return path.Switch()
}

// Reads an answer, and moves so many times while it comes.
func (c *client) read(ctx context.Context, response *http.Response, moves int) (told, error) {
	defer response.Body.Close()
	sum, piece := sha256.New(), make([]byte, 64<<10)
	answer := told{Status: response.StatusCode}
	for {
		count, err := response.Body.Read(piece)
		sum.Write(piece[:count])
		answer.Bytes += int64(count)
		if err == io.EOF {
			break
		}
		if err != nil {
			return answer, err
		}
		if answer.Moved < moves && answer.Bytes*int64(moves+1) > response.ContentLength*int64(answer.Moved+1) {
			if err := c.move(ctx); err != nil {
				return answer, fmt.Errorf("move: %w", err)
			}
			answer.Moved++
		}
	}
	answer.Sha256 = hex.EncodeToString(sum.Sum(nil))
	return answer, nil
}

// What is sent, made as it is asked for.
type pattern struct{ at, end int64 }

func (p *pattern) Read(piece []byte) (int, error) {
	if p.at == p.end {
		return 0, io.EOF
	}
	count := 0
	for count < len(piece) && p.at < p.end {
		piece[count] = byte(p.at % 251)
		count++
		p.at++
	}
	return count, nil
}

func run(ctx context.Context, address, command string, rest []string) (any, error) {
	config := &tls.Config{
		InsecureSkipVerify: true, // The certificate is the test's own.
		NextProtos:         []string{http3.NextProtoH3},
		ServerName:         "localhost",
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
	}
	if command == "resume" {
		return resume(ctx, address, rest[0], config)
	}
	c, err := connect(ctx, address, config)
	if err != nil {
		return nil, err
	}
	switch command {
	case "download":
		moves, err := strconv.Atoi(rest[1])
		if err != nil {
			return nil, err
		}
		response, err := c.ask(ctx, "GET", rest[0], nil, 0)
		if err != nil {
			return nil, err
		}
		return c.read(ctx, response, moves)
	case "upload":
		length, err := strconv.ParseInt(rest[1], 10, 64)
		if err != nil {
			return nil, err
		}
		response, err := c.ask(ctx, "POST", rest[0], &pattern{0, length}, length)
		if err != nil {
			return nil, err
		}
		return c.read(ctx, response, 0)
	case "many":
		return many(ctx, c, rest)
	}
	return nil, fmt.Errorf("no command %q", command)
}

func many(ctx context.Context, c *client, paths []string) ([]told, error) {
	answers, failed := make([]told, len(paths)), make(chan error, len(paths))
	for number, path := range paths {
		go func() {
			response, err := c.ask(ctx, "GET", path, nil, 0)
			if err == nil {
				answers[number], err = c.read(ctx, response, 0)
			}
			failed <- err
		}()
	}
	for range paths {
		if err := <-failed; err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func resume(ctx context.Context, address, path string, config *tls.Config) ([]told, error) {
	var answers []told
	for _, method := range []string{http.MethodGet, http3.MethodGet0RTT} {
		c, err := connect(ctx, address, config)
		if err != nil {
			return nil, err
		}
		response, err := c.ask(ctx, method, path, nil, 0)
		if err != nil {
			return nil, err
		}
		answer, err := c.read(ctx, response, 0)
		if err != nil {
			return nil, err
		}
		select {
		case <-c.quic.HandshakeComplete():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		state := c.quic.ConnectionState()
		answer.Resumed, answer.Early = state.TLS.DidResume, state.Used0RTT
		answers = append(answers, answer)
		// The ticket comes behind the handshake.
		time.Sleep(200 * time.Millisecond)
		c.quic.CloseWithError(0x100, "")
	}
	return answers, nil
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	answer, err := run(ctx, os.Args[1], os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(answer)
}
