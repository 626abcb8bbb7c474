"""Ask a server on loopback whether it is ready."""

import http.client
import ssl
from pathlib import Path


def answers_ok(port: int, path: str, *, authority: Path | None = None, token: str = "") -> bool:
    """Tell whether a GET gives 200.

    With an authority the request goes over TLS and trusts that certificate alone: the file that the server wrote when
    it signed its own. No answer, or no such file yet, is False.
    """
    if authority is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    elif authority.exists():
        context = ssl.create_default_context(cafile=authority)
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
    else:
        return False
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
