"""A Hugging Face Hub for tests, on a free port of the loopback address: what its API answers, and ways to fail.

usage: hub_server.py FOLDER     FOLDER/NAME/FILE or FOLDER/OWNER/NAME/FILE

It prints its port, then a line for each request: METHOD PATH RANGE. What a model is called says how it behaves:
  breaks     each answer with content ends after 1000 bytes, but says that it has all
  whole      the same once, and it does not know ranges
  changed    content differs from what the API says, at the same length
  longer     content is longer than the API says
  vast       the API says that the weights have 30 TB
  gated      the API answers everybody, and the files need a token that has access
  private    only the token hf_good may see it
  busy       HTTP 429 for everything
  strange    the API answers with a page of HTML
"""
import hashlib
import http.server
import json
import pathlib
import sys
import urllib.parse

root = pathlib.Path(sys.argv[1])
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 2000  # a file of so many bytes is kept like git LFS does: at another host
broken = set()


def sums(file, model):
    content = file.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    entry = {"rfilename": str(file.relative_to(model)), "size": len(content), "blobId": blob}
    if len(content) >= LARGE:
        entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
    if "vast" in str(file.parent) and file.name.startswith("model"):
        entry["lfs"] = {"sha256": "0" * 64, "size": 30 * 10**12, "pointerSize": 130}
    return entry


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def refuse(self, status, code=""):
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer(self, content, status=200, first=0, total=None):
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{total - 1}/{total}")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return content

    def refuses(self, model):
        """Whether the user may not see the model; then the refusal is sent."""
        token = self.headers.get("Authorization", "")
        if model == "busy":
            self.refuse(429)
        elif model == "private" and token != "Bearer hf_good":
            self.refuse(404 if token else 401, "RepoNotFound")
        elif not (root / model).is_dir():
            self.refuse(404 if token else 401, "RepoNotFound")
        else:
            return False
        return True

    def list_files(self, model, revision):
        if self.refuses(model):
            return
        if revision not in ("main", "refs/pr/1", COMMIT):
            return self.refuse(404, "RevisionNotFound")
        files = [sums(file, root / model) for file in sorted((root / model).rglob("*")) if file.is_file()]
        text = json.dumps({"id": model, "sha": COMMIT, "siblings": files})
        self.wfile.write(self.answer(b"<html>hello" if model == "strange" else text.encode()))

    def send_file(self, path):
        model = str(path.parent)
        content = (root / path).read_bytes()
        if model == "changed" and path.name != "config.json":
            content = bytes(len(content))
        if model == "longer" and path.name != "config.json":
            content += b"more"
        first = 0
        asked = self.headers.get("Range")
        if asked and model != "whole":
            first = int(asked.removeprefix("bytes=").rstrip("-"))
        status = 206 if first else 200
        rest = self.answer(content[first:], status, first, len(content))
        if model == "breaks" or (model == "whole" and path not in broken):
            broken.add(path)
            rest = rest[:1000]
            self.close_connection = True
        self.wfile.write(rest)

    def resolve(self, model, name):
        if self.refuses(model):
            return
        token = self.headers.get("Authorization", "")
        if model == "gated" and token != "Bearer hf_good":
            return self.refuse(403 if token else 401, "GatedRepo")
        file = root / model / name
        if not file.is_file():
            return self.refuse(404, "EntryNotFound")
        if file.stat().st_size < LARGE:
            return self.send_file(file.relative_to(root))
        self.send_response(302)  # localhost is another host than 127.0.0.1
        self.send_header("Location", f"http://localhost:{self.server.server_port}/lfs/{model}/{name}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        print(self.command, self.path, self.headers.get("Range", "-"), flush=True)
        path = urllib.parse.unquote(self.path.split("?")[0])
        if path.startswith("/api/models/"):
            model, revision = path.removeprefix("/api/models/").split("/revision/")
            self.list_files(model, revision)
        elif path.startswith("/lfs/"):
            if "Authorization" in self.headers:
                return self.refuse(400)  # a token must not reach another host
            self.send_file(pathlib.Path(path.removeprefix("/lfs/")))
        else:
            model, rest = path[1:].split("/resolve/")
            self.resolve(model, rest.split("/", 1)[1])

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
print(f"port {server.server_port}.", flush=True)
server.serve_forever()
