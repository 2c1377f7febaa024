"""Secrets are told by their names or their values."""

from __future__ import annotations

import pytest

from elastane.jobs.secrecy import looks_secret


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("WANDB_API_KEY", "x"),
            ("HF_TOKEN", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("AWS_ACCESS_KEY_ID", "x"),
        ),
        *(
            ("DB_PASSWORD", "x"),
            ("mysql_pwd", "x"),
            ("github_pat", "x"),
            ("DATABASE_URL", "postgres://me:pw@host/db"),
        ),
        *(
            ("AWS_SECRET_ACCESS_KEY", "/bPxRfiCYEXAMPLEKEY"),
            ("PGPASSWORD", "x"),
            ("SSHPASS", "x"),
            ("ACCESSTOKEN", "x"),
        ),
        *(("SENTRY_DSN", "https://key@host/1"), ("AZURE_STORAGE", "Name=a;AccountKey=abc=="), ("apikey", "x")),
    ],
)
def test_secrets(name: str, value: str) -> None:
    assert looks_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("TOKENIZERS_PARALLELISM", "false"), ("KEYBOARD", "de"), ("PATH", "/bin"), ("PWD", "/tmp")),
        *(("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json"), ("http_proxy", "http://proxy:3128")),
        *(
            ("SSL_CERT_FILE", "/etc/key"),
            ("VAULT_TOKEN_PATH", "/run/t"),
            ("COMPASSION", "yes"),
            ("TOKENIZER_NAME", "gpt2"),
        ),
    ],
)
def test_no_secrets(name: str, value: str) -> None:
    assert not looks_secret(name, value)
