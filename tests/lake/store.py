# SPDX-License-Identifier: Apache-2.0
"""An object store in a process of its own: moto's S3, behind a proxy that fails on demand.

    python -m tests.lake.store  # prints the endpoint, has the bucket `lake`, ends with its standard input

`PUT /_faults` sets the faults, and `GET /_faults` returns what is left of them and how many happened:

- `{"counts": {"unavailable": 1, "lost response": 1}}`: of the next commits.
- `{"counts": {"ignore conditions": 1}}`: until it is set to 0.
- `{"rates": {"slow": 0.02, "late": 0.01}}`: of all requests, at random.

The access key `wrong` is refused.
"""

import http.client
import http.server
import json
import random
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from contextlib import contextmanager, nullcontext

COMMITS = ("_delta_log/", "metadata.json")
CONDITIONS = ("if-none-match", "if-match")
# unavailable: 503, and the store does not see the request.
# timeout: the connection ends after a while, and the store does not see the request.
# slow: the response is late.
# lost response: the store does what it is asked to, and the connection ends without a response.
# late: the connection ends at once, and the store gets the request afterwards.
KINDS = ("unavailable", "timeout", "slow", "lost response", "late")


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the store, unless a fault is due."""

    protocol_version = "HTTP/1.1"
    where = ""
    counts = {}
    rates = {}
    happened = Counter()
    lock = threading.Lock()
    condition = threading.Lock()

    def choose_fault(self):
        is_commit = self.command == "PUT" and any(part in self.path for part in COMMITS)
        with self.lock:
            for kind in KINDS:
                if is_commit and self.counts.get(kind, 0) > 0:
                    self.counts[kind] -= 1
                elif random.random() >= self.rates.get(kind, 0.0):
                    continue
                self.happened[kind] += 1
                return kind
        return None

    def pass_on(self):
        body = self.read_body()
        if self.path == "/_faults":
            if self.command == "PUT":
                given = json.loads(body)
                type(self).counts, type(self).rates = given.get("counts", {}), given.get("rates", {})
            state = {"counts": self.counts, "rates": self.rates, "happened": self.happened}
            self.answer(200, json.dumps(state).encode(), [])
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() != "transfer-encoding"}
        if self.counts.get("ignore conditions"):
            headers = {name: value for name, value in headers.items() if name.lower() not in CONDITIONS}
        if "Credential=wrong/" in self.headers.get("Authorization", ""):
            self.answer(403, b"<Error><Code>InvalidAccessKeyId</Code><Message>unknown key</Message></Error>", [])
            return
        fault = self.choose_fault()
        if fault == "unavailable":
            self.answer(503, b"<Error><Code>SlowDown</Code></Error>", [])
        elif fault == "timeout":
            time.sleep(random.uniform(1.0, 6.0))
            self.close_connection = True
        elif fault == "late":
            threading.Timer(random.uniform(0.2, 3.0), self.forward, (body, headers)).start()
            self.close_connection = True
        else:
            status, data, found = self.forward(body, headers)
            if fault == "slow":
                time.sleep(random.uniform(0.2, 2.0))
            if fault == "lost response":
                self.close_connection = True
            else:
                self.answer(status, data, found)

    def forward(self, body, headers):
        # moto checks a condition and writes in two steps. A store does it in one.
        is_conditional = any(name.lower() in CONDITIONS for name in headers)
        with self.condition if is_conditional else nullcontext():
            return self.send_to_store(body, headers)

    def send_to_store(self, body, headers):
        connection = http.client.HTTPConnection(self.where, timeout=30)
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, data, response.getheaders()

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
        """Fail that often, of the next commits."""
        self._put({"counts": {name.replace("_", " "): count for name, count in counts.items()}})
        try:
            yield
        finally:
            self._put({})

    @contextmanager
    def fault_rates(self, **rates):
        """Fail at random, with these probabilities."""
        self._put({"rates": {name.replace("_", " "): rate for name, rate in rates.items()}})
        try:
            yield
        finally:
            self._put({})

    def left(self):
        """Return the counts that are left."""
        return self._get()["counts"]

    def happened(self):
        """Return how often each fault happened."""
        return self._get()["happened"]

    def _get(self):
        with urllib.request.urlopen(f"{self.endpoint}/_faults", timeout=30) as answer:
            return json.load(answer)

    def _put(self, state):
        request = urllib.request.Request(f"{self.endpoint}/_faults", json.dumps(state).encode(), method="PUT")
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
