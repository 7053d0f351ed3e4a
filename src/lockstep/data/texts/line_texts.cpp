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
  LineTexts(const std::string& path, const TextFileOptions& options)
      : IndexedTexts(path, options, "lines"), keeps_ends_(options.keep_line_ends) {
    TextRowChecks checks(options, path);
    std::int64_t line_number = 1;
    const std::size_t first = view().substr(0, kUtf8Mark.size()) == kUtf8Mark ? kUtf8Mark.size() : 0;
    for (std::size_t begin = first; begin < view().size(); ++line_number) {
      const std::string_view line = line_at(begin);
      checks.text(0, line, [&] { return fmt::format("{}:{}", path, line_number); });
      checks.end_row(begin);
      begin += line.size() + end_at(begin + line.size()).size();
    }
    set_rows(checks);
  }

 private:
  // The line that begins at `begin`, without its end.
  std::string_view line_at(std::size_t begin) const { return view().substr(begin, end_of_line(begin) - begin); }

  // In blocks: a file with one of the two ends alone must not be searched whole, for each line, for the other.
  std::size_t end_of_line(std::size_t begin) const {
    constexpr std::size_t kBlock = 256;
    for (std::size_t at = begin; at < view().size(); at += kBlock) {
      std::string_view block = view().substr(at, kBlock);
      block = block.substr(0, block.find('\n'));
      const std::size_t length = std::min(block.find('\r'), block.size());
      if (length < std::min(kBlock, view().size() - at)) return at + length;
    }
    return view().size();
  }

  // The end of a line, at `place`; empty at the end of the file.
  std::string_view end_at(std::size_t place) const {
    return view().substr(place, view().substr(place, 2) == "\r\n" ? 2 : 1);
  }

  std::vector<std::string> do_texts(std::uint64_t offset) const override {
    std::string line(line_at(offset));
    if (keeps_ends_ && offset + line.size() < view().size()) line += '\n';
    return {std::move(line)};
  }

  bool keeps_ends_;
};

}  // namespace

std::shared_ptr<const TextDataset> read_text_lines(const std::string& path, TextFileOptions options) {
  if (options.texts.empty()) options.texts = {kLineColumn};
  if (options.texts != std::vector<std::string>{kLineColumn} || options.has_labels()) {
    throw Error("plain text has only one column, \"text\", and no label", path,
                "name \"text\" and no label, or store the rows as CSV");
  }
  return std::make_shared<LineTexts>(path, options);
}

}  // namespace lockstep
