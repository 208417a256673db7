"""A receiver of webhooks on the loopback, for checks."""

import http.server
import threading

# Seconds within which a delivery comes; the first pause of one that failed is 5 s, up to a fifth longer.
DELIVERED = 60


class Receiver:
    """A receiver of webhooks that keeps what it gets, and answers with the next of `answers`, then with 204."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.got = []
        self.changed = threading.Condition()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def handler(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status, headers = receiver.keep(self.path, dict(self.headers), body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        return Handler

    def keep(self, path, headers, body):
        with self.changed:
            self.got.append((path, {name.lower(): value for name, value in headers.items()}, body))
            self.changed.notify_all()
            answer = self.answers.pop(0) if self.answers else 204
        return answer if isinstance(answer, tuple) else (answer, {})

    def wait(self, number=1, seconds=DELIVERED):
        """The first `number` deliveries, as pairs of headers and body."""
        with self.changed:
            done = self.changed.wait_for(lambda: len(self.got) >= number, seconds)
            assert done, f"{len(self.got)} deliveries in {seconds} s, not {number}"
            return [(headers, body) for _, headers, body in self.got[:number]]
