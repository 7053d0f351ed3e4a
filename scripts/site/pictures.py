"""Takes pictures of five pages of the built site by headless Chromium: light and dark, 1280 and 420 pixels wide.

usage: pictures.py SITE FOLDER
"""
import functools
import http.server
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

PAGES = {"start": "", "lesson": "lessons/1-ten-concepts/", "reference": "reference/ddp/",
         "questions": "how-do-i/", "cpp": "api/classlockstep_1_1DistributedDataParallel.html"}
SIZES = {1280: 1600, 420: 1800}  # width: height


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def main(site, folder):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not browser:
        sys.exit("pictures: no browser is installed; Debian's package is chromium")
    folder.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, page in PAGES.items():
        for width, height in SIZES.items():
            for scheme, flags in (("light", []), ("dark", ["--force-dark-mode"])):
                picture = folder / f"{name}-{width}-{scheme}.png"
                with tempfile.TemporaryDirectory() as profile:
                    subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                                    f"--user-data-dir={profile}", f"--window-size={width},{height}", *flags,
                                    "--virtual-time-budget=5000", f"--screenshot={picture}",
                                    f"http://127.0.0.1:{server.server_address[1]}/{page}"],
                                   check=True, timeout=120, stderr=subprocess.DEVNULL)
                print(picture, flush=True)
    server.shutdown()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
