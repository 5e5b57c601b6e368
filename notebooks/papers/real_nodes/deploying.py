"""Run the apps of the thesis in processes of Siddhi on this machine, and return the results that arrive."""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).parent
ERRORS = "errors.txt"


@dataclass(frozen=True, slots=True)
class Deployment:
    """Apps of a file of queries, and the number of nodes that run each."""

    file: str
    nodes: Mapping[str, int]  # by app; an app sends only to apps before it, and to the consumer
    texts: Mapping[str, str]  # what replaces $window and other names
    publisher: str = "publisher"
    heap_mb: int = 64  # memory limit of a node


@dataclass(frozen=True, slots=True)
class RealRun:
    """The events and the results of a deployment."""

    sent: np.ndarray  # int64, (n_events,): the microsecond in which each event was sent
    results: pd.DataFrame  # arrival (microseconds), and the attributes of the results
    ended: tuple[str, ...]  # apps whose nodes ended early, because their memory was full


def apps_of(deployment: Deployment, ports: Mapping[str, Sequence[int]]) -> dict[str, list[str]]:
    """Return the text of each app for each of its nodes.

    ``$window`` and other names become their texts. In an address, ``$app`` is the first node of that app. As
    a destination, it is all its nodes, and ``$app.0.2`` is two of them.
    """
    written = (FOLDER / deployment.file).read_text(encoding="utf-8")
    text_of_app = {
        re.findall(r"'([\w-]+)'", text)[0]: text for text in re.split(r"(?=@app:name)", written)[1:]
    }

    def address(node: int, to: re.Match) -> str:
        app = deployment.texts.get(to[1], to[1])
        return f"url='tcp://127.0.0.1:{ports[app][node]}/{app}/{to[3]}'"

    def destinations(to: re.Match) -> str:
        n_nodes = len(ports[deployment.texts.get(to[1], to[1])])
        nodes = sorted({int(node) % n_nodes for node in to[2].split(".")[1:]}) or range(n_nodes)
        return ", ".join(f"@destination({address(node, to)})" for node in nodes)

    def filled(text: str, node: int) -> str:
        url = r"url='\$([\w-]+)([.\d]*)/(\w+)'"
        text = re.sub(rf"@destination\({url}\)", destinations, text)
        text = re.sub(url, lambda to: address(0, to), text)
        return re.sub(r"\$(\w+)", lambda name: {"id": str(node), **deployment.texts}[name[1]], text)

    return {app: [filled(text_of_app[app], node) for node in range(len(at))] for app, at in ports.items()}


def run(
    class_path: str, deployment: Deployment, events: pd.DataFrame, rate_hz: float, *, seconds: float
) -> RealRun:
    """Send events, 0 per second means as fast as possible, and return what arrives within some seconds."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        compiler = ["javac", "-proc:none", "-cp", class_path, "-d", str(folder), str(FOLDER / "Node.java")]
        subprocess.run(compiler, check=True, capture_output=True)
        errors = stack.enter_context(open(folder / ERRORS, "a", encoding="utf-8"))
        ports = _free_ports({"consumer": 1, **deployment.nodes})
        ports[deployment.publisher] = ports["consumer"]
        apps = apps_of(deployment, ports)

        def start(names: Sequence[str], node: int, heap_mb: int) -> subprocess.Popen:
            files = [folder / f"{name}{node}.siddhi" for name in names]
            for name, file in zip(names, files, strict=True):
                file.write_text(apps[name][node], encoding="utf-8")
            process = subprocess.Popen(
                ["java", f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                 "-XX:+ExitOnOutOfMemoryError", "--add-opens=java.base/java.nio=ALL-UNNAMED",
                 "-cp", f"{folder}:{class_path}", "Node", str(ports[names[-1]][node]), *map(str, files)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
            stack.callback(_end, process)
            return process

        client = start((deployment.publisher, "consumer"), 0, 1024)
        _wait_for([client], folder)
        nodes: dict[str, list[subprocess.Popen]] = {}
        for name, n_nodes in deployment.nodes.items():
            nodes[name] = [start([name], node, deployment.heap_mb) for node in range(n_nodes)]
            _wait_for(nodes[name], folder)
        rows = events.to_csv(sep="\t", header=False, index=False)
        client.stdin.write(f"{rate_hz}\n{rows}\n")
        client.stdin.flush()
        end, ended = time.monotonic() + seconds, ()
        while time.monotonic() < end and not ended:
            time.sleep(0.1)
            ended = tuple(name for name in nodes for node in nodes[name] if node.poll() is not None)
        sent, _, rows = client.communicate("\n")[0].partition("\n")
        names = re.findall(r"(\w+) (?:string|double|float|long)", apps["consumer"][0].partition("define")[2])
        results = pd.read_csv(StringIO(rows), sep="\t", names=["arrival", *names])
        return RealRun(np.array(sent.split(), np.int64), results, ended)


def _free_ports(nodes: Mapping[str, int]) -> dict[str, list[int]]:
    """Return a free port of the loopback for each node."""
    with ExitStack() as stack:
        sockets = {
            name: [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(n_nodes)]
            for name, n_nodes in nodes.items()
        }
        return {name: [server.getsockname()[1] for server in servers] for name, servers in sockets.items()}


def _wait_for(processes: Sequence[subprocess.Popen], folder: Path) -> None:
    for process in processes:
        if process.stdout.readline() != "ready\n":
            raise EOFError(
                f"a node of Siddhi does not start: {(folder / ERRORS).read_text(encoding='utf-8')}"
            )


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate()
