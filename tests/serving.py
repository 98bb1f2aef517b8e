"""The live page as the tests ask it: a server in a thread, and the sentence of an answer that refuses."""

import socket
import threading
import time

import httpx
import uvicorn

from seqcredit.inspect.app import application
from seqcredit.inspect.desk import Desk

SOURCE, REFERENCE = "heute singt der alte hund .", "the old dog sings today ."


class Served:
    """A server in a thread, at a free port."""

    def __init__(self, desk: Desk) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self.socket.getsockname()[1]}"
        guard = application(desk)
        self.app = guard.app
        settings = uvicorn.Config(guard, log_level="critical", server_header=False)
        self.server = uvicorn.Server(settings)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.client = httpx.Client(base_url=f"http://{self.host}", timeout=30)

    def post(self, path: str, **body: object) -> httpx.Response:
        return self.client.post(path, json=body)

    def close(self) -> None:
        self.client.close()
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()


def error(answer: httpx.Response) -> str:
    """The one sentence of an answer that refuses."""
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    sentence = answer.json()["error"]
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    assert "/tmp" not in sentence
    return sentence
