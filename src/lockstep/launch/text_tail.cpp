#include "lockstep/launch/text_tail.h"

#include <algorithm>
#include <fstream>
#include <vector>

namespace lockstep {
namespace {

constexpr std::size_t kKeptBytes = 16UL * 1024;

}  // namespace

void TextTail::feed(std::string_view piece) {
  if (piece.size() > kKeptBytes) piece.remove_prefix(piece.size() - kKeptBytes);
  const std::size_t total = text_.size() + piece.size();
  if (total > kKeptBytes) text_.erase(0, total - kKeptBytes);
  text_ += piece;
}

std::vector<std::string> TextTail::last_lines(std::size_t count) const {
  std::vector<std::string> lines;
  std::size_t end = text_.size();
  while (end > 0 && lines.size() < count) {
    const std::size_t before = text_.find_last_of("\r\n", end - 1);
    const std::size_t start = before == std::string::npos ? 0 : before + 1;
    if (start < end) lines.push_back(text_.substr(start, end - start));
    end = start == 0 ? 0 : start - 1;
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

TextTail tail_of_file(const std::string& path) {
  TextTail tail;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return tail;
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - static_cast<std::streamoff>(kKeptBytes)));
  std::string text(kKeptBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  tail.feed(text);
  return tail;
}

}  // namespace lockstep
