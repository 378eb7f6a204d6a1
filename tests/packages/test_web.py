"""The page of ``examples/web`` classifies drawn digits in a browser without a window, where one is installed."""
import functools
import http.server
import json
import re
import shutil
import subprocess
import threading

import pytest

from ..test_examples import ROOT, run

NAMES = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
DRAWN = {0: [[[140, 40], [90, 80], [80, 140], [90, 200], [140, 240], [190, 200], [200, 140], [190, 80], [140, 40]]],
         1: [[[110, 70], [150, 35], [150, 245]]],
         4: [[[170, 245], [170, 35], [70, 175], [220, 175]]]}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Prints nothing."""


@pytest.mark.long
@pytest.mark.skipif(not BROWSER, reason="no browser is installed")
def test_drawn_digits_are_classified(tmp_path):
    told = run("web/make.py", "--epochs", "6", "--folder", tmp_path)
    assert float(re.search(r"accuracy ([\d.]+)%", told)[1]) > 90
    for name in ("index.html", "digits.js"):
        shutil.copy(ROOT / "examples" / "web" / name, tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for digit, strokes in DRAWN.items():
            page = f"http://127.0.0.1:{server.server_port}/index.html#{json.dumps(strokes, separators=(',', ':'))}"
            done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                                   "--virtual-time-budget=20000", f"--user-data-dir={tmp_path / 'profile'}", page],
                                  capture_output=True, text=True, timeout=1500)
            assert re.search(r'<div id="guess">(\d?)</div>', done.stdout)[1] == str(digit), done.stderr
    finally:
        server.shutdown()
        server.server_close()
