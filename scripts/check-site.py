#!/usr/bin/env python3
"""Checks the pages of a built site: each link leads to a file, and to a heading of it where it names one; nothing is loaded from
elsewhere; the index of the search knows every page."""
import html.parser, json, pathlib, sys, urllib.parse

root = pathlib.Path(sys.argv[1]).resolve()


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.names = [], [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.names.update(filter(None, [a.get("id"), a.get("name")]))
        if tag == "a" and "href" in a:
            self.links.append(a["href"])
        elif tag == "link" and a.get("rel") in ("stylesheet", "icon"):
            self.loads.append(a["href"])
        elif tag in ("script", "img", "iframe") and "src" in a:
            self.loads.append(a["src"])


pages = {path: Page(path) for path in root.rglob("*.html")}
faults, checked = [], 0
for path, page in pages.items():
    where = path.relative_to(root)
    if where.name == "404.html":
        continue  # it is shown at any depth, so its links begin at the address of the site
    for link in page.links + page.loads:
        to = urllib.parse.urlsplit(link)
        if to.scheme or to.netloc:
            if link in page.loads and to.scheme != "data":
                faults.append(f"{where}: loads {link} from elsewhere")
            continue
        target = (path.parent / urllib.parse.unquote(to.path)).resolve() if to.path else path
        if target.is_dir():
            target /= "index.html"
        checked += 1
        if not target.is_file():
            faults.append(f"{where}: {link} leads nowhere")
        elif to.fragment and target in pages and urllib.parse.unquote(to.fragment) not in pages[target].names:
            faults.append(f"{where}: {link}: the page has no such heading")
known = {entry["location"].split("#")[0] for entry in json.loads((root / "search/search_index.json").read_text())["docs"]}
for path in pages:
    place = path.relative_to(root).as_posix().removesuffix("index.html")
    if place != "404.html" and place not in known:
        faults.append(f"the search does not know {place or 'the first page'}")
print(*faults, f"check-site: {len(pages)} pages, {checked} links, {len(faults)} faults", sep="\n")
sys.exit(bool(faults) or checked < 500)
