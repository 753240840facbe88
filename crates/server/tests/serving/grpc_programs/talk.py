"""Both ends of a gRPC service: `serve` prints its port; `ask ADDRESS PAUSE` prints what it heard, a line for each kind of call."""

import queue
import sys
import time
from concurrent import futures

import grpc


def unary(request, context):
    context.set_trailing_metadata((("x-said", dict(context.invocation_metadata()).get("x-ask", "none")),))
    return request[::-1]


def fails(request, context):
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not so")


def counts(request, context):
    for at in range(int(request)):
        yield b"%d" % at


def adds(requests, context):
    return b"%d" % sum(len(request) for request in requests)


def echoes(requests, context):
    for request in requests:
        yield request


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(8))
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Fails": grpc.unary_unary_rpc_method_handler(fails),
        "Counts": grpc.unary_stream_rpc_method_handler(counts),
        "Adds": grpc.stream_unary_rpc_method_handler(adds),
        "Echoes": grpc.stream_stream_rpc_method_handler(echoes),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Talk", handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(None)


def ask(address):
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        response, call = channel.unary_unary("/test.Talk/Unary").with_call(b"abc", metadata=(("x-ask", "this"),), timeout=10)
        print("unary", response.decode(), dict(call.trailing_metadata()).get("x-said"), call.code().name)
        long, call = channel.unary_unary("/test.Talk/Unary").with_call(b"a" * 1000000 + b"b", timeout=20)
        print("long", len(long), long[:2].decode(), call.code().name)
        try:
            channel.unary_unary("/test.Talk/Fails")(b"", timeout=10)
        except grpc.RpcError as error:
            print("fails", error.code().name, error.details())
        try:
            channel.unary_unary("/test.Talk/Missing")(b"", timeout=10)
        except grpc.RpcError as error:
            print("missing", error.code().name)
        print("counts", b",".join(channel.unary_stream("/test.Talk/Counts")(b"5", timeout=10)).decode())
        print("adds", channel.stream_unary("/test.Talk/Adds")(iter([b"x" * 1000] * 300), timeout=10).decode())
        print("echoes", talk(channel, float(sys.argv[3])))


def talk(channel, pause):
    """Says the next word only when the one before has come back, and a while has passed."""
    heard = []
    turn = futures.ThreadPoolExecutor(1)
    words = queue.Queue()
    answers = channel.stream_stream("/test.Talk/Echoes")(iter(words.get, None), timeout=20)
    for word in (b"one", b"two", b"three"):
        words.put(word)
        heard.append(turn.submit(next, answers).result(5).decode())
        time.sleep(pause)
    words.put(None)
    heard.extend(answer.decode() for answer in answers)
    return " ".join(heard)


if sys.argv[1] == "serve":
    serve()
else:
    ask(sys.argv[2])
