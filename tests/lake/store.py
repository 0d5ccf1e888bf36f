# SPDX-License-Identifier: Apache-2.0
"""An object store in a process of its own: moto's S3, behind a proxy that loses requests and responses on demand.

    python -m tests.lake.store  # prints the endpoint; has the bucket `lake`; ends with its standard input

`PUT /_faults` sets how often each fault still happens: `{"unavailable": 1, "lost response": 1, "ignore conditions": 1}`.
"""

import http.client
import http.server
import json
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the store, unless `fail` says otherwise."""

    protocol_version = "HTTP/1.1"
    where = ""
    faults = {}  # by kind, how many are left
    lock = threading.Lock()

    def take(self, kind):
        with self.lock:
            left = self.faults.get(kind, 0)
            self.faults[kind] = left - (left > 0)
            return left > 0

    def pass_on(self):
        body = self.read_body()
        if self.path == "/_faults":
            if self.command == "PUT":
                type(self).faults = json.loads(body)
            self.answer(200, json.dumps(self.faults).encode(), [])
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() != "transfer-encoding"}
        if self.faults.get("ignore conditions"):
            headers = {
                name: value for name, value in headers.items() if name.lower() not in ("if-none-match", "if-match")
            }
        is_commit = self.command == "PUT" and ("_delta_log/" in self.path or "metadata.json" in self.path)
        if is_commit and self.take("unavailable"):
            self.answer(503, b"<Error><Code>SlowDown</Code></Error>", [])
            return
        connection = http.client.HTTPConnection(self.where, timeout=30)
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        if is_commit and response.status == 200 and self.take("lost response"):
            self.close_connection = True  # it was written, but the client never knows
            return
        self.answer(response.status, data, response.getheaders())

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def answer(self, status, data, headers):
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                self.send_header(name, value)
        length = {name.lower(): value for name, value in headers}.get("content-length", "0")
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on

    def log_message(self, *_):
        pass


class Store:
    """The store, and its faults."""

    def __init__(self):
        command = [sys.executable, "-m", "tests.lake.store"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.endpoint = self.process.stdout.readline().strip()

    def environment(self):
        """Return the variables that the libraries read."""
        return {
            "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "secret-of-test", "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }  # fmt: skip

    @contextmanager
    def faults(self, **counts):
        self._put({name.replace("_", " "): count for name, count in counts.items()})
        try:
            yield
        finally:
            self._put({})

    def left(self):
        with urllib.request.urlopen(f"{self.endpoint}/_faults", timeout=30) as answer:
            return json.load(answer)

    def _put(self, counts):
        request = urllib.request.Request(f"{self.endpoint}/_faults", json.dumps(counts).encode(), method="PUT")
        urllib.request.urlopen(request, timeout=30).close()

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def main():
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    Proxy.where = "{}:{}".format(*server.get_host_and_port())
    client = boto3.client(
        "s3", endpoint_url=f"http://{Proxy.where}", aws_access_key_id="any", aws_secret_access_key="any",
        region_name="us-east-1",
    )  # fmt: skip
    client.create_bucket(Bucket="lake")
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{proxy.server_address[1]}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
