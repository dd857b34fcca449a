"""Where alerts go: one room, private files, clear errors, and no secret in any of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgbudget.alerts.settings import AlertSettings, read_private
from pgbudget.config import Config, ConfigError

SLACK = "https://hooks.slack.com/services/T0/B0/hush-hush"
CHAT = "https://chat.googleapis.com/v1/spaces/A/messages?key=hush&token=hush-hush"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def settings(**variables: str) -> AlertSettings:
    return AlertSettings.from_env({f"PGBUDGET_ALERT_{name}": value for name, value in variables.items()})


def private(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "secret"
    path.touch(mode=0o600)
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_nothing_is_configured_by_default() -> None:
    assert AlertSettings.from_env({"PGBUDGET_DSN": "x"}).destinations == []


def test_all_at_once(tmp_path: Path) -> None:
    found = settings(
        SLACK_URL_FILE=private(tmp_path, f"\n  {SLACK}\n"),
        WEBHOOK_URL="https://ops.example/hush-hush",
        WEBHOOK_SECRET=SECRET,
        SMTP_URL="smtp://me%40x:hush%2Fhush-hush@mail.example",
        SMTP_FROM="pgbudget@example.com",
        SMTP_TO="a@example.com, b@example.com",
    )
    assert found.destinations == ["slack", "webhook", "smtp"]
    assert found.chat is not None
    assert found.chat.url == SLACK
    assert found.mail is not None
    assert (found.mail.host, found.mail.port, found.mail.tls, found.mail.user) == ("mail.example", 587, False, "me@x")
    assert (found.mail.password, found.mail.soft_only) == ("hush/hush-hush", True)
    assert found.mail.receivers == ("a@example.com", "b@example.com")
    assert "hush" not in repr(found)
    assert "hooks" not in repr(found)
    assert "MfKQ" not in repr(found)


def test_google_chat_and_implicit_tls(tmp_path: Path) -> None:
    found = settings(
        GOOGLE_CHAT_URL_FILE=private(tmp_path, CHAT, 0o400),
        SMTP_URL="smtps://mail.example",
        SMTP_FROM="a@example.com",
        SMTP_TO="a@example.com",
        SMTP_BUDGETS="all",
    )
    assert found.destinations == ["google_chat", "smtp"]
    assert found.mail is not None
    assert (found.mail.port, found.mail.tls, found.mail.soft_only) == (465, True, False)


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({"SLACK_URL": SLACK, "GOOGLE_CHAT_URL": CHAT}, "SLACK_URL and PGBUDGET_ALERT_GOOGLE_CHAT_URL are set"),
        ({"SLACK_URL": SLACK, "SLACK_URL_FILE": "/f"}, "SLACK_URL and PGBUDGET_ALERT_SLACK_URL_FILE are set"),
        ({"SLACK_URL_FILE": "/f", "GOOGLE_CHAT_URL_FILE": "/f"}, "are set: alerts go to one room"),
        ({"SLACK_URL": SLACK.replace("https", "http")}, "must be one https:// URL"),
        ({"SLACK_URL": "http://127.0.0.1/hush-hush"}, "must be one https:// URL"),
        ({"SLACK_URL": "http://10.0.0.1/hush-hush", "LOOPBACK_HTTP": "1"}, "must be one https:// URL"),
        ({"SLACK_URL": "http://localhost.evil.example/hush-hush", "LOOPBACK_HTTP": "1"}, "must be one https:// URL"),
        ({"SLACK_URL": "https://me:hush-hush@hooks.slack.com/x"}, "must not have a user or a password"),
        ({"SLACK_URL": "hush-hush"}, "is not a URL"),
        ({"SLACK_URL": "https:///hush-hush"}, "is not a URL"),
        ({"SLACK_URL": f"{SLACK} {SLACK}"}, "is not a URL"),
        ({"SLACK_URL": f"{SLACK}\n"}, "is not a URL"),
        ({"SLACK_URL": "https://h:99999/hush-hush"}, "is not a URL"),
        ({"SLACK_URL": "https://[hush-hush"}, "is not a URL"),
        ({"WEBHOOK_URL": "https://h/hush-hush"}, "belong together"),
        ({"WEBHOOK_SECRET": SECRET}, "belong together"),
        ({"WEBHOOK_URL": "https://h/x", "WEBHOOK_SECRET": "hush-hush"}, "WEBHOOK_SECRET must be whsec_"),
        ({"WEBHOOK_URL": "https://h/x", "WEBHOOK_SECRET": "whsec_aHVzaA=="}, "WEBHOOK_SECRET must be whsec_"),
        ({"SMTP_URL": "smtp://h"}, "belong together"),
        ({"SMTP_URL": "https://h", "SMTP_FROM": "a@b.c", "SMTP_TO": "a@b.c"}, "must be smtp://"),
        ({"SMTP_URL": "smtp://hush-hush@h", "SMTP_FROM": "a@b.c", "SMTP_TO": "a@b.c"}, "a user or a password"),
        ({"SMTP_URL": "smtp://h", "SMTP_FROM": "nobody", "SMTP_TO": "a@b.c"}, "SMTP_FROM must be"),
        ({"SMTP_URL": "smtp://h", "SMTP_FROM": "a@b.c", "SMTP_TO": "a@b.c, A <a@b.c>"}, "SMTP_TO must be"),
        ({"SMTP_URL": "smtp://h", "SMTP_FROM": "a@b.c", "SMTP_TO": "a@b.c", "SMTP_BUDGETS": "x"}, "must be soft or all"),
        ({"SLACK_ULR": SLACK}, "PGBUDGET_ALERT_SLACK_ULR is not a setting"),
    ],
)
def test_what_is_wrong_is_named_and_never_shown(variables: dict[str, str], names: str) -> None:
    with pytest.raises(ConfigError, match=names) as caught:
        settings(**variables)
    assert "hush" not in str(caught.value)
    assert "MfKQ" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o700, 0o620])
def test_a_file_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match="chmod 600"):
        settings(SLACK_URL_FILE=private(tmp_path, SLACK, mode))


@pytest.mark.parametrize("text", ["", "\n", f"{SLACK}\n{SLACK}\n", "https://h/" + "x" * 8192])
def test_a_file_holds_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="one line"):
        settings(SLACK_URL_FILE=private(tmp_path, text))


def test_only_a_file_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path, message in (
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path, "not a regular file"),
        (tmp_path / "none", "No such file"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_private("PGBUDGET_ALERT_SLACK_URL_FILE", str(path))


def test_a_link_is_judged_by_what_it_leads_to(tmp_path: Path) -> None:
    # As the secrets of a cluster are mounted.
    private(tmp_path, SLACK)
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    assert read_private("X", str(tmp_path / "link")) == SLACK
    (tmp_path / "secret").chmod(0o644)
    with pytest.raises(ConfigError):
        read_private("X", str(tmp_path / "link"))


def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = private(tmp_path, SLACK)
    os.chown(path, 12345, 12345)
    with pytest.raises(ConfigError, match="another user"):
        read_private("X", path)


def test_the_configuration_of_the_gateway_does_not_show_them() -> None:
    config = Config.from_env({"PGBUDGET_DSN": "x", "PGBUDGET_ALERT_SLACK_URL": SLACK})
    assert "hush" not in repr(config)
