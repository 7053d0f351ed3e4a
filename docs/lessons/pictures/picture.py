"""Shapes of a picture, as SVG, on a light or a dark ground: whichever the reader's page has."""

# The colours by their names, and what each becomes on a dark ground.
INK, GREY, LINE = "#1f2933", "#616e7c", "#9aa5b1"
WEIGHTS, GRADIENTS, STATE, DATA = "#bcd9f5", "#f9d3a8", "#cfe8c6", "#e6dcf5"
WORK, EMPTY, WIDE, THIN = "#e4e7eb", "#ffffff", "#f0a04b", "#1f5fbf"
DARK = {INK: "#e6e9ee", GREY: "#a9b3be", LINE: "#6d7885", WEIGHTS: "#2b5580", GRADIENTS: "#85511f", STATE: "#3c6b34",
        DATA: "#594585", WORK: "#3b424d", EMPTY: "#1e2129", WIDE: "#c07a2c", THIN: "#8ab8ff"}


def paint(**colors):
    """Attributes with the light colours, and classes that a dark ground changes: fill=INK gives fill and class f0."""
    attributes = "".join(f' {name}="{color}"' for name, color in colors.items())
    classes = " ".join(name[0] + str(list(DARK).index(color)) for name, color in colors.items())
    return f'class="{classes}"{attributes}'


def style():
    rules = "".join(f".f{i}{{fill:{dark}}}.s{i}{{stroke:{dark}}}" for i, dark in enumerate(DARK.values()))
    return f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"


class Picture:
    """Shapes on a ground of their own. All lengths in pixels, from the top left corner."""

    def __init__(self, title, width, height):
        self.title, self.width, self.height = title, width, height
        self.shapes = []
        self.text(16, 28, title, size=17, bold=True)

    def text(self, x, y, words, size=13, anchor="start", color=INK, bold=False):
        for row, line in enumerate(words.split("\n")):
            weight = ' font-weight="bold"' if bold else ""
            self.shapes.append(f'<text x="{x:g}" y="{y + row * (size + 4):g}" font-size="{size}" {paint(fill=color)} '
                               f'text-anchor="{anchor}"{weight}>{escaped(line)}</text>')

    def box(self, x, y, width, height, words="", fill=WORK, size=13, dashed=False):
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.shapes.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" '
                           f'{paint(fill=fill, stroke=LINE)}{dash}/>')
        lines = words.split("\n")
        top = y + height / 2 - (len(lines) - 1) * (size + 4) / 2 + size * 0.35
        if words:
            self.text(x + width / 2, top, words, size, anchor="middle")

    def arrow(self, x1, y1, x2, y2, color=GREY):
        self.shapes.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" {paint(stroke=color)} '
                           'stroke-width="1.5" marker-end="url(#head)"/>')

    def curve(self, points, color, width):
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.shapes.append(f'<polyline points="{places}" fill="none" {paint(stroke=color)} stroke-width="{width}"/>')

    def svg(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
                f'viewBox="0 0 {self.width} {self.height}" font-family="Helvetica, Arial, sans-serif" role="img">\n'
                f"<title>{escaped(self.title)}</title>\n{style()}\n"
                '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                f'orient="auto"><path d="M0 0 L8 4 L0 8 z" {paint(fill=GREY)}/></marker></defs>\n'
                f'<rect width="{self.width}" height="{self.height}" {paint(fill=EMPTY)}/>\n')
        return head + "\n".join(self.shapes) + "\n</svg>\n"


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
