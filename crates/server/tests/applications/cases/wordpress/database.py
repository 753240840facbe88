"""Runs MariaDB on a socket in the folder; accepts on the port as soon as it answers."""
import socket, subprocess, sys

port, folder = int(sys.argv[1]), sys.argv[2]
path = folder + "/mysql.sock"
server = subprocess.Popen(["/usr/sbin/mariadbd", "--no-defaults", "--skip-networking", "--user=root", "--datadir=" + folder + "/mysql",
                           "--socket=" + path, "--pid-file=" + folder + "/mysql.pid"], stderr=subprocess.DEVNULL)
while server.poll() is None:
    asked = socket.socket(socket.AF_UNIX)
    try:
        asked.connect(path)
        if asked.recv(1):
            break
    except OSError:
        pass
    finally:
        asked.close()
ready = socket.create_server(("127.0.0.1", port))
server.wait()
