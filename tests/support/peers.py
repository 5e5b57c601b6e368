"""Engines of the Java world: the jars that Maven brings, and a process that answers many cases.

A case is a line with the query, a line for each event, and an empty line. The cells of an event are the
stream, the time and the values, with tabs between them; ``\\N`` is null. The answer is a line for each row,
with the time and the values, and a line with a dot. It is one line, ``!`` and a text, if the engine fails.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

Event = tuple[Any, ...]  # the stream, the time in milliseconds, the values
Case = tuple[str, list[Event]]  # the query, and the events

ESPER = (
    "com.espertech:esper-runtime:9.0.0",
    "com.espertech:esper-compiler:9.0.0",
    "org.slf4j:slf4j-nop:1.7.36",
)
# Two libraries of siddhi-core are not where Maven looks, so all jars are named, with usual ones for the two.
SIDDHI = (
    *(f"io.siddhi:siddhi-{part}:5.1.7" for part in ("core", "query-api", "query-compiler", "annotations")),
    *("com.lmax:disruptor:3.4.2", "org.quartz-scheduler:quartz:2.1.7", "log4j:log4j:1.2.17"),
    *(
        "com.google.guava:guava:23.0",
        "io.dropwizard.metrics:metrics-core:3.1.0",
        "org.antlr:antlr4-runtime:4.7.2",
    ),
    *("com.google.code.gson:gson:2.8.5", "com.jayway.jsonpath:json-path:2.4.0"),
    *("org.osgi:org.osgi.core:6.0.0", "org.atteo.classindex:classindex:3.8", "org.slf4j:slf4j-api:1.7.36"),
    "org.slf4j:slf4j-nop:1.7.36",
)
# Siddhi as in the scatter-gather thesis, which ran 4.2.35 (not published) with the same TCP extension.
SIDDHI4 = (
    *(f"org.wso2.siddhi:siddhi-{part}:4.2.34" for part in ("core", "query-api", "query-compiler")),
    *(
        "org.wso2.siddhi:siddhi-annotations:4.2.34",
        "io.netty:netty-all:4.1.7.Final",
        "commons-pool:commons-pool:1.5.6",
    ),
    "org.wso2.extension.siddhi.io.tcp:siddhi-io-tcp:2.0.20",
    "org.wso2.extension.siddhi.map.binary:siddhi-map-binary:1.0.15",
    "org.wso2.extension.siddhi.execution.unique:siddhi-execution-unique:4.0.27",
    "org.wso2.extension.siddhi.execution.reorder:siddhi-execution-reorder:4.0.11",
    *(jar for jar in SIDDHI if not jar.startswith("io.siddhi")),
)
FLINK = (
    *(f"org.apache.flink:flink-{part}:2.3.0" for part in ("cep", "core", "core-api", "metrics-core")),
    *(f"org.apache.flink:flink-shaded-{part}-21.0" for part in ("asm-9:9.9.1", "guava:33.5.0-jre")),
    *("org.apache.commons:commons-lang3:3.18.0", "org.slf4j:slf4j-api:1.7.36", "org.slf4j:slf4j-nop:1.7.36"),
)
FLINK_SQL = (
    *(
        f"org.apache.flink:flink-{part}:2.3.0"
        for part in ("table-planner-loader", "table-runtime", "table-api-java-bridge", "clients", "cep")
    ),
    "org.slf4j:slf4j-nop:1.7.36",
)
JARS = {"esper": ESPER, "flink": FLINK, "flinksql": FLINK_SQL, "siddhi": SIDDHI, "siddhi4": SIDDHI4}
NEEDS_OTHERS = ("esper", "flinksql")  # Maven also brings what their jars name
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peers</groupId><artifactId>peers</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@cache
def class_path(name: str) -> str | None:
    """Return the jars of an engine; None without Java, Maven, or a way to them."""
    if not shutil.which("java") or not shutil.which("mvn"):
        return None
    jars = JARS[name]
    folder = Path(tempfile.gettempdir()) / f"cepkit-{name}-{jars[0].rpartition(':')[2]}"
    if not list(folder.glob("*.jar")):
        folder.mkdir(mode=0o700, exist_ok=True)
        parts = []
        for jar in jars:
            tags = zip(("groupId", "artifactId", "version"), jar.split(":"), strict=True)
            parts.append(
                "".join(f"<{tag}>{text}</{tag}>" for tag, text in tags) + _ALONE * (name not in NEEDS_OTHERS)
            )
        (folder / "pom.xml").write_text(
            _POM.format("".join(f"<dependency>{part}</dependency>" for part in parts))
        )
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        if subprocess.run(command, cwd=folder, capture_output=True).returncode:
            return None
    return str(folder / "*")


class Peer:
    """A process of Java that answers cases one after another."""

    def __init__(self, jars: str, program: Path):
        command = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-cp", jars, str(program)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def answers(self, cases: Sequence[Case]) -> list[list[tuple[str, ...]] | str]:
        """Return the rows of each case, with their cells as texts, or what the engine says when it fails."""
        asked = "".join("\n".join([text, *map(_line, events), "\n"]) for text, events in cases)
        self.process.stdin.write(asked)  # a pipe has room for some dozen cases, so nobody waits
        self.process.stdin.flush()
        return [self._answer() for _ in cases]

    def _answer(self) -> list[tuple[str, ...]] | str:
        rows = []
        for line in self.process.stdout:
            if line.startswith("!"):
                return line[1:].strip()
            if line == ".\n":
                return rows
            rows.append(tuple(line.rstrip("\n").split("\t")))
        raise EOFError("the engine has ended")

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


def _line(event: Event) -> str:
    return "\t".join("\\N" if cell is None else str(cell) for cell in event)


if __name__ == "__main__":  # print the jars of an engine
    print(class_path(sys.argv[1]))
