#!/usr/bin/env python3
"""Commands of the documentation as `docs_run.rs` runs them: one file under several names.

`saker` is the real program; servers are stopped once they are ready. `systemctl` starts and stops what
units say, since no systemd runs there. What would install, build, or test is compared with what there is.
"""

import fnmatch
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.environ["SAKER_DOCS_ROOT"]
SAKER = os.environ["SAKER_DOCS_PROGRAM"]
# The answers to questions, which each command reads from their beginning.
ANSWERS = os.environ["SAKER_DOCS_ANSWERS"]
NOTIFY = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
UNITS = ["/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system"]
# Services of other packages: how they are started and stopped without systemd.
OTHERS = {
    "apache2.service": (["apachectl", "start"], ["apachectl", "stop"]),
    "nginx.service": (["nginx"], ["nginx", "-s", "stop"]),
}


def start(words):
    """Starts a server; returns when it says that it is ready."""
    folder = tempfile.mkdtemp()
    path = folder + "/notify"
    NOTIFY.bind(path)
    # The server may have another user.
    os.chmod(folder, 0o755)
    os.chmod(path, 0o777)
    server = subprocess.Popen(words, env={**os.environ, "NOTIFY_SOCKET": path})
    NOTIFY.settimeout(0.05)
    while server.poll() is None:
        try:
            if b"READY=1" in NOTIFY.recv(4096):
                return server
        except TimeoutError:
            pass
    sys.exit(f"{words} ended with {server.returncode} before it was ready")


def saker(words):
    if words[:1] in (["serve"], ["run"]):
        server = start([SAKER, *words])
        server.send_signal(signal.SIGTERM)
        return server.wait()
    if os.path.samestat(os.fstat(0), os.stat(ANSWERS)):
        os.dup2(os.open(ANSWERS, os.O_RDONLY), 0)
    os.execv(SAKER, ["saker", *words])


def unit(name):
    name = name if "." in name else name + ".service"
    for folder in UNITS:
        if os.path.exists(f"{folder}/{name}"):
            return name, open(f"{folder}/{name}").read()
    sys.exit(f"there is no unit {name}")


def setting(text, key):
    return [line.split("=", 1)[1].split() for line in text.splitlines() if line.startswith(key + "=")]


def start_unit(name, text):
    if name in OTHERS:
        return subprocess.run(OTHERS[name][0]).returncode
    for words in setting(text, "ExecStartPre"):
        subprocess.run(words, check=True)
    for words in setting(text, "ExecStart"):
        with open(f"/run/docs-{name}.pid", "w") as file:
            file.write(str(start(words).pid))
    return 0


def stop_unit(name):
    if name in OTHERS:
        command = OTHERS[name][1]
        status = subprocess.run(command).returncode
        wait_until(lambda: not listens(80))
        return status
    path = f"/run/docs-{name}.pid"
    if os.path.exists(path):
        pid = int(open(path).read())
        os.unlink(path)
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: has_ended(pid))
    return 0


def has_ended(pid):
    try:
        is_zombie = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z"
        # The last of its threads closes its sockets.
        return is_zombie and len(os.listdir(f"/proc/{pid}/task")) <= 1
    except (FileNotFoundError, ProcessLookupError):
        return True


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition):
    while not condition():
        time.sleep(0.01)


def systemctl(words):
    options = [word for word in words if word.startswith("-")]
    verb, *names = [word for word in words if not word.startswith("-")]
    if verb == "daemon-reload":
        return 0
    status = 0
    for name, text in map(unit, names):
        if verb in ("enable", "disable"):
            verb_now = {"enable": "start", "disable": "stop"}[verb] if "--now" in options else None
        else:
            verb_now = verb
        if verb_now in ("stop", "restart"):
            status |= stop_unit(name)
        if verb_now in ("start", "restart"):
            status |= start_unit(name, text)
        if verb_now == "reload":
            for command in setting(text, "ExecReload"):
                status |= subprocess.run(command).returncode
        if verb_now not in (None, "start", "stop", "restart", "reload"):
            sys.exit(f"systemctl {verb}: unknown")
    return status


def apt(words):
    if words[:1] != ["install"]:
        sys.exit(f"apt {words}: unknown")
    for name in words[1:]:
        if "/" in name:
            version = re.search(r'^version = "(.*)"', open(f"{ROOT}/Cargo.toml").read(), re.M)[1]
            made = f"saker_{version}-1_amd64.deb"
            if not fnmatch.fnmatch(made, os.path.basename(name)):
                sys.exit(f"{name}: the package is {made}")
        elif subprocess.run(["dpkg-query", "-s", name], stdout=subprocess.DEVNULL).returncode:
            sys.exit(f"{name}: the tests install no such package")
    return 0


def make(words):
    quiet = {"stdout": subprocess.DEVNULL}
    return subprocess.run(["/usr/bin/make", "-n", "-C", ROOT, *words], **quiet).returncode


def cargo(words):
    if words[0] == "xtask":
        tasks = open(f"{ROOT}/tools/xtask/src/main.rs").read()
        if f"cargo xtask {words[1]}" not in tasks:
            sys.exit(f"cargo xtask {words[1]}: unknown")
    for option, value in zip(words, words[1:]):
        if option == "-p":
            crates = [value.removeprefix("saker-"), "server" if value == "saker" else value]
            if not any(os.path.isdir(f"{ROOT}/{place}/{name}") for place in ("crates", "tools") for name in crates):
                sys.exit(f"there is no crate {value}")
        if option == "--test" and not os.path.isdir(f"{ROOT}/crates/server/tests/{value}"):
            sys.exit(f"there is no test {value}")
    if words[0] not in ("build", "run", "test", "xtask", "check"):
        sys.exit(f"cargo {words[0]}: unknown")
    return 0


def git(words):
    paths = [word for word in words[1:] if not word.startswith("-")]
    missing = [path for path in paths if not os.path.exists(f"{ROOT}/{path}")]
    return f"{missing} are not there" if missing else 0


def curl(words):
    """A stream of events has no end: its status is enough."""
    command = ["/usr/bin/curl", "-sS", "--fail"]
    if "-N" not in words:
        return subprocess.run([*command, *words]).returncode
    with subprocess.Popen([*command, "-D", "-", *words], stdout=subprocess.PIPE) as asked:
        head = asked.stdout.readline()
        asked.kill()
    return 0 if b" 200" in head else f"curl: {head}"


def sudo(words):
    os.execvp(words[0], words)


if __name__ == "__main__":
    name = os.path.basename(sys.argv[0]).replace("apt-get", "apt")
    sys.exit({
        "saker": saker, "systemctl": systemctl, "apt": apt, "make": make, "cargo": cargo, "git": git, "curl": curl,
        "sudo": sudo,
    }[name](sys.argv[1:]))
