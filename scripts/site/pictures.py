"""Takes pictures of six pages of the built site by headless Chromium: light and dark, 1280 and 420 pixels wide.

At 420 pixels no page of the site may be wider than the screen: tables, code and formulas scroll by themselves.

usage: pictures.py SITE FOLDER
"""
import functools
import json
import http.server
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

PAGES = {"start": "", "readme": "repository/readme/", "lesson": "lessons/1-ten-concepts/", "reference": "reference/ddp/",
         "questions": "how-do-i/", "cpp": "api/classlockstep_1_1DistributedDataParallel.html"}
SIZES = {1280: 1600, 420: 1800}  # width: height


# Opens each page in a frame, and lists those that are too wide.
FRAMES = """<pre id="wide">not finished</pre><script>
async function run(pages, width) {
  const wide = [];
  for (const page of pages) {
    const frame = Object.assign(document.createElement("iframe"), {width: width, height: 900, src: page});
    document.body.appendChild(frame);
    await new Promise(loaded => frame.onload = loaded);
    const found = frame.contentDocument.documentElement.scrollWidth;
    if (found > width) wide.push(page + ": " + found);
    frame.remove();
  }
  document.getElementById("wide").textContent = "of " + pages.length + " pages too wide: " + wide.join(", ");
}
run(PAGES, WIDTH)</script>"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def open_page(browser, address, *flags):
    """What the browser prints."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                               f"--user-data-dir={profile}", *flags, address],
                              check=True, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout


def pages_too_wide(browser, site, host):
    pages = [f"/{path.parent.relative_to(site)}/" for path in sorted(site.rglob("index.html"))
             if "api" not in path.relative_to(site).parts]
    frames = site / "frames.html"
    frames.write_text(FRAMES.replace("PAGES", json.dumps(pages)).replace("WIDTH", str(min(SIZES))), encoding="utf-8")
    printed = open_page(browser, f"{host}/frames.html", "--virtual-time-budget=120000", "--dump-dom")
    frames.unlink()
    return re.search(r'<pre id="wide">(.*?)</pre>', printed, re.S).group(1)


def main(site, folder):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not browser:
        print("pictures: skipped, because no browser is installed; Debian's package is chromium")
        sys.exit(77)
    folder.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"http://127.0.0.1:{server.server_address[1]}"
    for name, page in PAGES.items():
        for width, height in SIZES.items():
            for scheme, flags in (("light", []), ("dark", ["--force-dark-mode"])):
                picture = folder / f"{name}-{width}-{scheme}.png"
                open_page(browser, f"{host}/{page}", f"--window-size={width},{height}", *flags,
                          "--virtual-time-budget=5000", f"--screenshot={picture}")
                print(picture, flush=True)
    wide = pages_too_wide(browser, site, host)
    server.shutdown()
    print(wide)
    if not re.fullmatch(r"of [1-9]\d* pages too wide: ", wide):
        sys.exit(1)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
