// Plain text, one row per line.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/texts/indexed_texts.h"

namespace lockstep {
namespace {

constexpr const char* kLineColumn = "text";
constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";  // at the beginning of some files; not part of the text

class LineTexts : public IndexedTexts {
 public:
  LineTexts(const std::string& path, const TextFileOptions& options) : IndexedTexts(path, options, "lines") {
    TextRowChecks checks(options, path);
    std::int64_t line_number = 1;
    const std::size_t first = view().substr(0, kUtf8Mark.size()) == kUtf8Mark ? kUtf8Mark.size() : 0;
    for (std::size_t begin = first; begin < view().size(); ++line_number) {
      const std::string_view line = line_at(begin);
      checks.text(0, line, [&] { return fmt::format("{}:{}", path, line_number); });
      checks.end_row(begin);
      begin = std::min(view().find('\n', begin), view().size()) + 1;
    }
    set_rows(checks);
  }

 private:
  // The line that begins at `begin`, without its end.
  std::string_view line_at(std::size_t begin) const {
    std::string_view line = view().substr(begin, std::min(view().find('\n', begin), view().size()) - begin);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return line;
  }

  std::vector<std::string> do_texts(std::uint64_t offset) const override { return {std::string(line_at(offset))}; }
};

}  // namespace

std::shared_ptr<const TextDataset> read_text_lines(const std::string& path, TextFileOptions options) {
  if (options.texts.empty()) options.texts = {kLineColumn};
  if (options.texts != std::vector<std::string>{kLineColumn} || options.has_labels()) {
    throw Error("plain text has the one column \"text\", and no label", path,
                "name \"text\" and no label, or store the rows as CSV");
  }
  return std::make_shared<LineTexts>(path, options);
}

}  // namespace lockstep
