# Runs inside gdb, which makes a worker of the server do what an attacker would have it do. Each
# line of "$SAKER_CALLS" is a name and a system call; the answers are "NAME RESULT ERRNO".
import os
import gdb

gdb.execute("handle SIGSYS nostop noprint pass", to_string=True)
workers = [
    thread
    for thread in gdb.selected_inferior().threads()
    if (thread.name or "").startswith("worker")
]
workers[0].switch()
for line in os.environ["SAKER_CALLS"].splitlines():
    name, call = line.split(" ", 1)
    result = int(gdb.parse_and_eval("((long (*)(long, ...)) syscall)(%s)" % call))
    errno = int(gdb.parse_and_eval("*((int *(*)(void)) __errno_location)()"))
    print("CALL %s %d %d" % (name, result, errno if result < 0 else 0))
