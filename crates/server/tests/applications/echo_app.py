"""A WSGI application that shows what the server tells it."""
import json


def application(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    path = environ.get("PATH_INFO", "")
    query = dict(pair.partition("=")[::2] for pair in environ.get("QUERY_STRING", "").split("&") if pair)
    status, fields = "200 OK", [("Content-Type", "application/json"), ("Cache-Control", "private")]
    if "status" in query:
        status = query["status"] + " Told"
    if "to" in query:
        status = "302 Found"
        fields.append(("Location", query["to"]))
    if "cookie" in query:
        fields.append(("Set-Cookie", "session=" + query["cookie"] + "; Path=/; HttpOnly"))
        fields.append(("Set-Cookie", "second=2; Path=/"))
    if path.endswith("/stream"):
        start_response(status, fields)
        return (b"line %d\n" % number for number in range(2000))
    if path.endswith("/download"):
        fields.append(("Content-Disposition", 'attachment; filename="report.csv"'))
    names = ["REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE", "CONTENT_LENGTH",
             "SERVER_NAME", "wsgi.url_scheme", "HTTP_X_FORWARDED_PROTO", "HTTP_X_REAL_IP",
             "HTTP_AUTHORIZATION", "HTTP_COOKIE", "HTTP_ACCEPT_LANGUAGE", "HTTP_X_REQUESTED_WITH", "REMOTE_USER"]
    told = {name: str(environ.get(name, "")) for name in names}
    told["HTTP_HOST"] = environ.get("HTTP_HOST", "").partition(":")[0]
    told["body"] = body.decode("latin-1")
    text = json.dumps(told, indent=1, sort_keys=True).encode()
    start_response(status, fields + [("Content-Length", str(len(text)))])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [text]
