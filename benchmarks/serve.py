"""`mha serve` under load on the loopback, beside `mha predict` on the same texts.

    python benchmarks/serve.py                                    # the model that comes with mha; table and serve.json
    python benchmarks/serve.py runs/imdb-fast/checkpoint.keras    # another model

The reviews are those of IMDB's test split. The clients, all in one process, each keep a connection, send one review after the
other to `POST /predict` and wait for the answer; one client sends lists of reviews. A round is all reviews once, and the first one
does not count. Every answer is compared with that of `mha predict --json`. Memory is that of the server (PSS), after the first round
and after the last; so it runs on Linux only.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import harness
import predict
import stream_memory
import tables

LOADS = {"1 client": (1, 1), "8 clients": (8, 1), "64 clients": (64, 1), "1 client, lists of 512": (1, 512)}
"""Clients, and reviews in a request."""
ROUNDING = 2e-6
"""Probabilities have six digits behind the point, and float32 is rounded differently where other texts stand beside one."""


async def load(port: int, contents: list[object], clients: int) -> tuple[float, list[float], list[bytes]]:
    """Ask for all contents by so many clients; seconds of all, of each, and the bodies of the answers."""
    requests = []
    for content in contents:
        body = json.dumps(content).encode()
        head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        requests.append(head.encode() + body)
    seconds, bodies = [0.0] * len(requests), [b""] * len(requests)
    rest = iter(enumerate(requests))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number, request in rest:
            started = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            bodies[number] = await reader.readexactly(length)
            seconds[number] = time.perf_counter() - started
            if not head.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(f"{head.splitlines()[0].decode()}: {bodies[number].decode()}")
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return time.perf_counter() - started, seconds, bodies


def clients_of(port: int, path: Path) -> None:
    """The clients' side of ``harness.Worker``."""
    texts = path.read_text().splitlines()
    expected = Path(f"{path}.json").read_text().splitlines()

    def answer(clients: int, together: int) -> dict[str, object]:
        parts = range(0, len(texts), together)
        contents = [{"text": texts[start]} if together == 1 else {"texts": texts[start : start + together]} for start in parts]
        seconds, each, bodies = asyncio.run(load(port, contents, clients))
        answers = [one for body in map(json.loads, bodies) for one in (body if isinstance(body, list) else [body])]
        wrong = sum(differs(ours, line, together) for ours, line in zip(answers, expected, strict=True))
        ordered = sorted(each)
        at = {f"p{share}": 1000 * ordered[min(len(ordered) - 1, share * len(ordered) // 100)] for share in (50, 99)}
        return {"seconds": seconds, "wrong": wrong, **at}

    harness.serve(answer)


def differs(ours: dict[str, Any], line: str, together: int) -> bool:
    """Whether an answer is another than that of ``mha predict --json``, whose ids count on."""
    theirs = json.loads(line)
    theirs["id"] = (theirs["id"] - 1) % together + 1
    probabilities = [answer.pop("probabilities") for answer in (ours, theirs)]
    largest = max(abs(probabilities[0][name] - probability) for name, probability in probabilities[1].items())
    probability = abs(ours.pop("probability") - theirs.pop("probability"))
    return max(largest, probability) > ROUNDING or ours != theirs


def main() -> None:
    """Measure the model that the arguments name."""
    parser = harness.parser(__doc__, of_a_model=True)
    parser.add_argument("--reviews", type=int, default=5_000, help="in a round (5,000)")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    checkpoint = str(arguments.checkpoint.resolve())
    busy = harness.busy_share()
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts.txt"
        # In a process of its own: what reads TFDS stays large.
        harness.run_command([sys.executable, predict.__file__, checkpoint, "--reviews", str(arguments.reviews), "--write", str(texts)])
        commands = {
            f"mha predict{option}": harness.mha_command("predict", "-c", checkpoint, "--json", *option.split(), "-i", str(texts))
            for option in (" --workers 1", "")
        }
        finished = harness.in_rounds(commands, arguments.rounds)
        Path(f"{texts}.json").write_text(finished["mha predict"][-1].stdout)
        loads: dict[str, list[dict[str, float]]] = {name: [] for name in LOADS}
        megabytes = []
        server_command = harness.mha_command("serve", "-c", checkpoint, "--port", "0")
        with subprocess.Popen(server_command, stderr=subprocess.PIPE, text=True, cwd=harness.ROOT, env=harness.environment()) as server:
            assert server.stderr
            port = server.stderr.readline().split()[0].rpartition(":")[2]
            try:
                with harness.Worker(__file__, "--clients-of", port, str(texts)) as worker:
                    for number in range(arguments.rounds + 1):
                        for name, (clients, together) in LOADS.items():
                            answer = worker.ask(clients=clients, together=together)
                            if answer["wrong"]:
                                raise RuntimeError(f"{answer['wrong']} answers differ from those of mha predict")
                            if number:
                                loads[name].append(answer)
                        megabytes.append(stream_memory.megabytes(server.pid))
            finally:
                server.terminate()
    seconds = {name: [one.seconds for one in runs] for name, runs in finished.items()}
    figures = {"seconds": seconds, "loads": loads, "megabytes": [megabytes[0], megabytes[-1]]}
    record = harness.record({"reviews": arguments.reviews, "rounds": arguments.rounds}, figures, busy)
    harness.write_record(arguments.results / "serve.json", record)
    tables.show(tables.serve(record))


if __name__ == "__main__":
    if "--clients-of" in sys.argv:
        clients_of(int(sys.argv[-2]), Path(sys.argv[-1]))
    else:
        main()
