"""The table of what a case gets by how far it is trusted, in the pages about trust, from ``reprokit.case.trust``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reprokit.case.trust import ALLOWANCES, Trust

ROOT = Path(__file__).parents[2]
PAGES = {"en": ROOT / "docs" / "security.md", "zh-CN": ROOT / "docs" / "security.zh-CN.md"}
BEGIN, END = "<!-- generated: what each level gets -->", "<!-- end of what is generated -->"
HEAD = {
    "en": "| what a case gets | your own | reviewed | untrusted |",
    "zh-CN": "| 用例得到什么 | 你自己的 | 已审阅的 | 不受信任的 |",
}

WORDS = {
    "domain": ("caches and images, shared with", "缓存和镜像与谁共用"),
    "credentials": ("this site's credentials for what its builds fetch", "构建下载时使用本站点的凭据"),
    "open_network": ("network of its builds", "构建的网络"),
    "asks": ("shown and asked about first", "先展示并询问"),
    "any_source": ("`sources`", "`sources`"),
    "configured_folders": ("`datasets` and `sources` of the configuration", "配置中的 `datasets` 和 `sources`"),
    "on_host": ("`--engine venv`", "`--engine venv`"),
    "debug_files": ("debug files of `debuginfod` servers", "来自 `debuginfod` 服务器的调试文件"),
    "shares_images": ("images shared by `registry_images`", "通过 `registry_images` 共享镜像"),
    "trial_network": ("`network: bridge`", "`network: bridge`"),
    "host_ipc": ("`ipc: host`", "`ipc: host`"),
    "file_capabilities": (
        "`SYS_PTRACE` by the files of debuggers, with `backtrace`",
        "使用 `backtrace` 时，调试器的 `SYS_PTRACE`",
    ),
    "fetch_size": ("size of one of `sources`", "一个 `sources` 的大小"),
    "fetch_entries": ("files and folders of one of `sources`", "一个 `sources` 的文件和目录数"),
    "timeout": ("`timeout` of a trial", "一次试验的 `timeout`"),
    "build_time": ("time of a build", "一次构建的时间"),
    "run_time": ("time of all trials together", "所有试验的总时间"),
    "pids": ("processes of a trial", "一次试验的进程数"),
    "disk": ("what a trial writes to the disk", "一次试验写入磁盘的数据"),
    "memory_share": ("share of the memory", "内存份额"),
}
"""What each field of the table is called, in English and Chinese."""

VALUES: dict[tuple[str, Any], tuple[str, str]] = {
    ("domain", ""): ("your cases", "你自己的用例"),
    ("domain", "reviewed"): ("reviewed cases", "已审阅的用例"),
    ("domain", "stranger"): ("untrusted cases", "不受信任的用例"),
    ("open_network", True): ("any address", "任何地址"),
    ("open_network", False): (
        "indexes with the files that they link to, archives, what the case names",
        "索引及其页面链接的文件、软件源、用例写明的地址",
    ),
    ("any_source", True): (
        "any transport, with your git credentials and SSH keys",
        "任何协议，使用你的 git 凭据和 SSH 密钥",
    ),
    ("any_source", False): ("https alone, without credentials", "只限 https，不带凭据"),
    ("shares_images", False): ("where `registry_push` is `all`", "仅当 `registry_push` 为 `all`"),
    ("configured_folders", False): ("only those of the command line", "只有命令行给出的"),
}


def with_table(text: str, language: str) -> str:
    """A page with the table of today between the two comments. Raises KeyError for a field without words."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{_table(language)}\n{END}{rest.split(END)[1]}"


def _table(language: str) -> str:
    here = 0 if language == "en" else 1
    rows = [HEAD[language], "|---" * 4 + "|"]
    for name, words in WORDS.items():
        cells = (_shown(name, getattr(ALLOWANCES[level], name), here) for level in Trust)
        rows.append(f"| {words[here]} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _shown(name: str, value: Any, here: int) -> str:
    if (name, value) in VALUES:
        return VALUES[name, value][here]
    if isinstance(value, bool):
        return (("no", "否"), ("yes", "是"))[value][here]
    if value is None:
        return ("as the site grants", "按站点的设置")[here]
    if name in ("disk", "fetch_size"):
        return f"{value // 1024**3} GiB"
    if name == "memory_share":
        return f"{value:.0%}"
    return f"{value / 3600:g} h" if name in ("timeout", "build_time", "run_time") else f"{value:,}"
