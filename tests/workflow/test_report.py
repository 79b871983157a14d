"""Snakemake's report in a browser: what a reader gets to see, and that it needs no network."""

import base64
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from helpers import ROOT, tiny_yaml
from reruns import FIGURES, Project
from tiny_workflow import Workflow, importing_workflow

from rlvr.claims.ledger import ALL_CLAIMS

PROGRAMS = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
MISSING = [name for name, path in PROGRAMS.items() if not path]
MISSING += ["the Python package selenium"] if find_spec("selenium") is None else []
if MISSING:
    reason = f"the report is not looked at: {' and '.join(MISSING)} not found"
    pytest.skip(reason, allow_module_level=True)

webdriver = pytest.importorskip("selenium.webdriver")
exceptions = pytest.importorskip("selenium.common.exceptions")
waiting = pytest.importorskip("selenium.webdriver.support.wait")

SECONDS = 30  # the most that anything here waits for; a report takes about 4, a page about 1
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--window-size=1440,900"
)
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
PICTURE = "//div[@id='app']//div[contains(@class, 'grow')]//img"
DESCRIPTION = "//nav//li[preceding-sibling::*[1][.='Description']]"
LOCAL = {"data", "blob", "about", "chrome"}  # addresses that never leave the browser


def snakemake(workflow: Workflow, *options: str | Path) -> None:
    """Run it; without a lock, since other test processes look at the same folder."""
    done = subprocess.run(
        workflow.command("--nolock", *options),
        capture_output=True,
        text=True,
        env=workflow.environment,
        timeout=2 * SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def make_report(workflow: Workflow, path: Path) -> str:
    """The report, made as the Makefile does it; its HTML."""
    style = ROOT / "workflow/report/style.css"
    snakemake(workflow, "--report", path, "--report-stylesheet", style)
    html = path.read_text(encoding="utf-8")
    assert "system-message" not in html  # how reST complains
    return html


@pytest.fixture(scope="module")
def report(finished, tmp_path_factory) -> Path:
    """The report of the finished tiny workflow."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    make_report(finished, path)
    return path


class Handler(SimpleHTTPRequestHandler):
    """Hands out a folder; a browser's question for an icon is no failed request."""

    timeout = SECONDS

    def do_GET(self):
        if self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@contextmanager
def served(folder: Path):
    """The address of a local server that hands out a folder."""
    handler = functools.partial(Handler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def chromium(profile: Path):
    """A browser that knows no name but 127.0.0.1, its window as large as a laptop's."""
    options = webdriver.ChromeOptions()
    options.binary_location = PROGRAMS["chromium"]
    for flag in (*FLAGS.split(), OFFLINE, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(
        PROGRAMS["chromedriver"], popen_kw={"start_new_session": True}
    )
    socket.setdefaulttimeout(SECONDS)  # Selenium takes it over, for each of its requests
    try:
        driver = webdriver.Chrome(options, service)
    finally:
        socket.setdefaulttimeout(None)
    try:
        driver.set_page_load_timeout(SECONDS)
        driver.set_script_timeout(SECONDS)
        yield driver
        driver.quit()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(service.process.pid, signal.SIGKILL)


class Reader:
    """Somebody who reads a report."""

    def __init__(self, driver, address: str, pictures: Path) -> None:
        self.driver = driver
        self.pictures = pictures
        self.host = urlsplit(address).netloc
        driver.get("about:blank")
        for kind in ("browser", "performance"):  # of the pages before
            driver.get_log(kind)
        driver.get(address)

    def wait(self, condition, what: str):
        """What the condition says once it is true."""
        errors = exceptions.WebDriverException  # not there yet, or no longer, or still moving
        wait = waiting.WebDriverWait(self.driver, SECONDS, 0.05, [errors])
        return wait.until(condition, what)

    def find(self, xpath: str):
        return self.wait(lambda driver: driver.find_element("xpath", xpath), xpath)

    def click(self, xpath: str) -> None:
        self.find(xpath)
        self.wait_for_rest()
        self.wait(lambda driver: driver.find_element("xpath", xpath).click() or True, xpath)

    def wait_for_rest(self) -> None:
        """Until nothing moves any more: the menu slides to its width, and a click could miss."""
        moving = "return document.getAnimations().filter(a => a.playState == 'running').length == 0"
        self.wait(lambda driver: driver.execute_script(moving), "nothing moves")

    def picture(self):
        """The picture that is shown, once it is there."""
        self.wait(
            lambda driver: driver.find_element("xpath", PICTURE).get_property("complete"), PICTURE
        )
        return self.find(PICTURE)

    def menu(self, *names: str) -> None:
        """From the first page to an entry of the menu."""
        self.click("//nav//nav//li[1]/a")
        for name in names:
            self.click(
                f"//nav//li[normalize-space()='{name}']//*[normalize-space(text())='{name}']"
            )

    def look(self, name: str) -> None:
        """Take a picture of the page."""
        self.wait_for_rest()
        self.driver.save_screenshot(str(self.pictures / f"{name}.png"))

    def faults(self) -> list[str]:
        """Requests that leave the machine, requests that fail, errors on the console."""
        log = [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        found = [entry["message"] for entry in log]
        sent = {}
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            method, params = message["method"], message["params"]
            if method in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                url = params["request"]["url"] if "request" in params else params["url"]
                sent[params["requestId"]] = url
                if urlsplit(url).scheme not in LOCAL and urlsplit(url).netloc != self.host:
                    found.append(url)
            elif method == "Network.loadingFailed" and params["requestId"] in sent:
                found.append(f"{sent[params['requestId']]}: {params['errorText']}")
        return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def reader(browser, report, tmp_path):
    """A reader of the report, who must not have met any fault in the end."""
    with served(report.parent) as host:
        reader = Reader(browser, f"http://{host}/{report.name}", tmp_path)
        yield reader
        assert reader.faults() == []


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_shown_with_what_it_shows_and_the_runs_behind_it(reader, finished, figure):
    row = f"//nav//tr[td[starts-with(., 'Figure {figure[3]}: ')]]"
    reader.menu("Figures")
    reader.click(f"{row}//a[1]")
    picture = reader.picture()
    assert picture.get_property("naturalWidth") > 1000
    data = (finished.folder / f"results/{figure}.png").read_bytes()
    assert picture.get_property("src").endswith(base64.b64encode(data).decode())
    reader.look("figure")

    reader.click(f"{row}//a[2]")
    description = reader.find(DESCRIPTION).text
    config = tiny_yaml()
    assert f"Iterations 0 to {config['figures'][figure]['iterations']} of" in description
    for name in config["figures"][figure]["studies"]:
        lists = {"seeds": config["seeds"]} | config["studies"][name]
        runs = (
            f"{key} {', '.join(map(str, lists[key]))}"
            for key in ("recipes", "teachers", "betas", "seeds")
        )
        assert f"{name}: {'; '.join(runs)}" in description
    reader.look("caption")
    box, height = reader.driver.execute_script(
        "return [arguments[0].getBoundingClientRect(), innerHeight]", reader.picture()
    )
    assert 0 <= box["top"] < box["bottom"] <= height  # all of it in sight


def test_the_claims_are_a_table_with_a_verdict_each(reader):
    reader.menu("Claims")
    row = "//nav//tr[td='All claims and verdicts']"
    reader.click(f"{row}//a[1]")
    reader.look("claims")
    reader.click(f"{row}//a[2]")
    assert "A claim that fails is a result too" in reader.find(DESCRIPTION).text
    reader.driver.switch_to.frame(reader.find("//iframe"))
    statements = [row.text for row in reader.driver.find_elements("xpath", "//tr/td[1]")]
    assert statements == [f"{claim.statement}; {claim.unit}" for claim in ALL_CLAIMS]
    verdicts = [cell.text for cell in reader.driver.find_elements("xpath", "//tr/td[6]/strong")]
    assert len(verdicts) == len(ALL_CLAIMS)
    assert set(verdicts) <= {"holds", "fails", "not measured"} | {
        f"holds on {n} of 2 seeds" for n in range(3)
    }
    page = "let page = document.documentElement; return page.scrollWidth <= page.clientWidth"
    assert reader.driver.execute_script(page)  # no column out of sight
    reader.driver.switch_to.default_content()


def test_the_first_page_shows_the_settings_and_the_graph_of_rules(reader):
    settings = reader.find("//h1[.='GRPO with verifiable rewards']/..//pre")
    assert yaml.safe_load(settings.get_property("textContent")) == tiny_yaml()
    rules = "return rulegraph_spec.data[0].values.map(node => node.rule)"
    assert {"sft", "grpo", "table", "figure", "claims"} <= set(reader.driver.execute_script(rules))
    drawn = reader.find("//*[@id='rulegraph']//canvas")
    assert drawn.size["width"] > 50
    assert drawn.size["height"] > 200
    reader.look("first-page")
    reader.menu("Statistics")
    reader.find("//*[@id='runtimes']//canvas")
    reader.find("//*[@id='timeline']//canvas")
    reader.look("statistics")


def test_the_report_opens_from_a_file_too(browser, report, tmp_path):
    reader = Reader(browser, report.as_uri(), tmp_path)
    reader.menu("Figures")
    reader.click("//nav//tr[1]//a[1]")
    picture = reader.picture()
    assert picture.get_property("naturalWidth") > 1000
    assert reader.faults() == []


def test_captions_are_docstrings_which_draw_nothing_again_and_may_be_missing(clone):
    project, figures = Project(clone.folder), clone.folder / "src/rlvr/figures"
    first = "src/rlvr/figures/fig1_rlvr_overturns.py"
    project.edit(first, "Greedy accuracy over", "*Once_ more: <greedy accuracy> over")
    code = (clone.folder / first).read_text(encoding="utf-8").split('"""', 2)[2]
    (figures / "fig9_bare.py").write_text(code, encoding="utf-8")
    setting = {"studies": ["weak_start"], "iterations": 3}
    project.edit_config(lambda config: config["figures"].update(fig9_bare=setting))
    assert clone.would_run() == {"figure fig9_bare"}
    snakemake(clone)
    html = make_report(clone, clone.folder / "report.html")
    assert "*Once_ more: &lt;greedy accuracy&gt; over" in html
    assert '"labels": {"figure": "fig9_bare"}' in html
    assert "Iterations 0 to 3 of" in html


def test_a_workflow_that_imports_this_one_reports_its_figures(finished, tmp_path):
    shown = ("results/fig1_rlvr_overturns.png", "results/claims.html")
    course = importing_workflow(tmp_path, tiny_yaml(), *shown)
    shutil.copytree(finished.folder / "results", tmp_path / "teaching/results")
    html = make_report(course, tmp_path / "report.html")
    assert "Greedy accuracy over GRPO iterations from the weak start" in html
    assert "A claim that fails is a result too" in html
