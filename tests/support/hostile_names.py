"""Names and values that break out of a place that does not escape them."""

from __future__ import annotations

HOSTILE = {
    "tag": '"><img src=x onerror=alert(1)>',
    "script": "</title></text></script><script>alert(1)</script>",
    "link": '<a href="javascript:alert(1)">x</a>',
    "template": "{{7*7}} {x} %s %(x)s ${x} %{x} %{customdata[0]}",
    "entity": "&lt;b&gt; &#60;i&#62; &amp;",
    "NUL": "a\0b\x08",
    "direction": "a\u202eb\u200fc\u2066",
    "quotes": "'\"`\\'\"\"\"'''",
    "lines": "a\nb\r\nc\rd\u2028e\x85f\tg",
    "code": '"""); import os; os.abort() #',
    "backslash": "\\u0022 + x() \\",
    "terminal": "\x1b[2J\x1b]0;owned\x07\x9b31m",
    "shell": "$(touch owned); `touch owned` | touch owned & --out=owned",
    "sql": "x`); DROP TABLE t; -- /* '",
    "comment": "*/ x -- /* #",
    "path": "../../etc/passwd",
    "many": "x" * 20_000,
}
