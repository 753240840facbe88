// An HTTP and WebSocket server of the standard library.
package main

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func main() {
	http.ListenAndServe("127.0.0.1:"+os.Args[1], http.HandlerFunc(serve))
}

func serve(w http.ResponseWriter, r *http.Request) {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		upgrade(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	query := r.URL.Query()
	if to := query.Get("to"); to != "" {
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	if value := query.Get("cookie"); value != "" {
		http.SetCookie(w, &http.Cookie{Name: "sid", Value: value, Path: "/", HttpOnly: true})
	}
	if r.URL.Path == "/events" {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; i < 3; i++ {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if status, err := strconv.Atoi(query.Get("status")); err == nil {
		w.WriteHeader(status)
	}
	host, _, _ := strings.Cut(r.Host, ":")
	fmt.Fprintf(w, "%s %s %s %s|%s|%s|%s\n", r.Method, r.RequestURI, host, r.Header.Get("X-Forwarded-Proto"), r.Header.Get("Authorization"), r.Header.Get("Cookie"), body)
}

func upgrade(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/refuse") {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	connection, buffer, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer connection.Close()
	fmt.Fprintf(connection, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	if wanted, _, _ := strings.Cut(r.Header.Get("Sec-WebSocket-Protocol"), ","); wanted != "" {
		fmt.Fprintf(connection, "Sec-WebSocket-Protocol: %s\r\n", wanted)
	}
	fmt.Fprint(connection, "\r\n")
	echo(buffer.Reader, connection, r.RequestURI)
}

func echo(from *bufio.Reader, to io.Writer, uri string) {
	for {
		head := make([]byte, 6)
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		text := make([]byte, head[1]&0x7f)
		if _, err := io.ReadFull(from, text); err != nil {
			return
		}
		for i := range text {
			text[i] ^= head[2+i%4]
		}
		answer := uri + " " + string(text)
		to.Write(append([]byte{0x81, byte(len(answer))}, answer...))
	}
}
