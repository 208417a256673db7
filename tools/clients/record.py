#!/usr/bin/env python3
"""A server that writes down what a client sends, to learn the shapes of its requests before they meet Gristmill.

    record.py PORT FOLDER              answers itself: a fixed text, in each API's form
    record.py PORT FOLDER --to URL     hands the requests on and records both sides

Each request becomes FOLDER/NNN.json: method, path, headers (secrets left out), body, status, and the answer's
x-gristmill-warning headers and text. Only the standard library is needed.
"""

import argparse
import http.client
import itertools
import json
import pathlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

SECRET = {"authorization", "x-api-key", "cookie"}


def sse(events):
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)


def anthropic(body):
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}
    if not body.get("stream"):
        return "application/json", json.dumps(message | {"content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"})
    return "text/event-stream", sse([
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ])


def responses(body):
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}
    usage = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}
    response = {"id": "resp_1", "object": "response", "created_at": int(time.time()), "status": "completed",
                "model": body.get("model"), "output": [item], "usage": usage}
    if not body.get("stream"):
        return "application/json", json.dumps(response)
    return "text/event-stream", sse([
        {"type": "response.created", "response": response | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "Done."},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ])


def chat(body):
    choice = {"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}
    answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": int(time.time()), "model": body.get("model"),
              "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
    if not body.get("stream"):
        return "application/json", json.dumps(answer)
    chunk = answer | {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": choice["message"], "finish_reason": "stop"}]}
    return "text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"


def own_answer(path, body):
    if path.endswith("/count_tokens"):
        return 200, "application/json", json.dumps({"input_tokens": 1})
    for end, make in (("/messages", anthropic), ("/responses", responses), ("/chat/completions", chat)):
        if path.endswith(end) and isinstance(body, dict):
            return 200, *make(body)
    if path.endswith("/models"):
        return 200, "application/json", json.dumps({"object": "list", "data": []})
    return 404, "application/json", json.dumps({"error": {"message": "not recorded here", "type": "not_found_error"}})


class Recorder(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder = pathlib.Path(".")
    upstream = None
    numbers = itertools.count()

    def handle_any(self):
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(data) if data else None
        except ValueError:
            body = data.decode("utf-8", "replace")
        headers = {k.lower(): ("(left out)" if k.lower() in SECRET else v) for k, v in self.headers.items()}
        record = {"method": self.command, "path": self.path, "headers": headers, "body": body}
        began = time.monotonic()
        try:
            if self.upstream:
                self.forward(data, record)
            else:
                path = urlsplit(self.path).path
                status, kind, text = own_answer(path, body)
                record |= {"status": status, "answer": text}
                self.reply(status, kind, text.encode())
        except OSError as error:
            record["broken"] = str(error)
        finally:
            record["seconds"] = round(time.monotonic() - began, 3)
            path = self.folder / f"{next(self.numbers):03}.json"
            path.write_text(json.dumps(record, indent=1, ensure_ascii=False))

    do_GET = do_HEAD = do_POST = do_DELETE = do_OPTIONS = do_PUT = do_PATCH = handle_any

    def reply(self, status, kind, data):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def forward(self, data, record):
        to = urlsplit(self.upstream)
        connection = http.client.HTTPConnection(to.hostname, to.port, timeout=1800)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "accept-encoding")}
        connection.request(self.command, self.path, body=data or None, headers=headers)
        answer = connection.getresponse()
        record["status"] = answer.status
        record["warnings"] = answer.headers.get_all("x-gristmill-warning") or []
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        whole = b""
        try:
            while piece := answer.read1(65536):
                whole += piece
                self.wfile.write(piece)
                self.wfile.flush()
        finally:
            # A client that leaves takes its request with it.
            connection.close()
            record["answer"] = whole.decode("utf-8", "replace")

    def log_message(self, *_):
        pass


def serve(port, folder, upstream=None):
    """A recorder in a thread of its own; `server.server_address[1]` is its port, `server.shutdown()` ends it."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    handler = type("Here", (Recorder,), {"folder": folder, "upstream": upstream, "numbers": itertools.count()})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("folder")
    parser.add_argument("--to")
    given = parser.parse_args()
    server = serve(given.port, given.folder, given.to)
    print(f"recording on http://127.0.0.1:{server.server_address[1]} into {given.folder}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
