#include "lockstep/launch/process/text_tail.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <vector>

namespace lockstep {
namespace {

constexpr std::size_t kKeptBytes = 16UL * 1024;
// For a file: a stack of LibTorch takes some tens of kilobytes.
constexpr std::size_t kReadBytes = 256UL * 1024;

void cut(std::string& text) {
  if (text.size() > kKeptBytes) text.erase(0, text.size() - kKeptBytes);
}

// "frame #12: at::_ops::addmm::call(...) + 0x1a2 (0x7f... in /usr/lib/libtorch_cpu.so)"
bool is_frame(std::string_view line) {
  constexpr std::string_view kStart = "frame #";
  if (line.substr(0, kStart.size()) != kStart) return false;
  std::size_t at = kStart.size();
  while (at < line.size() && std::isdigit(static_cast<unsigned char>(line[at])) != 0) ++at;
  return at > kStart.size() && at < line.size() && line[at] == ':';
}

std::string told(std::size_t frames) { return fmt::format("(the stack, {} lines \"frame #\", is left out)", frames); }

}  // namespace

void TextTail::feed(std::string_view piece) {
  while (!piece.empty()) {
    const std::size_t end = std::min(piece.find_first_of("\r\n"), piece.size());
    line_ += piece.substr(0, end);
    cut(line_);
    if (end < piece.size()) end_line(piece[end]);
    piece.remove_prefix(std::min(end + 1, piece.size()));
  }
}

void TextTail::end_line(char end) {
  if (is_frame(line_)) {
    ++frames_;
  } else if (!line_.empty()) {
    tell_frames();
    keep(line_ + end);
  }
  line_.clear();
}

void TextTail::tell_frames() {
  if (frames_ > 0) keep(told(frames_) + "\n");
  frames_ = 0;
}

void TextTail::keep(std::string_view text) {
  text_ += text;
  cut(text_);
}

std::string TextTail::text() const {
  std::string text = text_;
  if (frames_ > 0) text += told(frames_) + "\n";
  text += line_;
  cut(text);
  return text;
}

std::vector<std::string> TextTail::last_lines(std::size_t count) const {
  const std::string text = this->text();
  std::vector<std::string> lines;
  std::size_t end = text.size();
  while (end > 0 && lines.size() < count) {
    const std::size_t before = text.find_last_of("\r\n", end - 1);
    const std::size_t start = before == std::string::npos ? 0 : before + 1;
    if (start < end) lines.push_back(text.substr(start, end - start));
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
  file.seekg(std::max<std::streamoff>(0, size - static_cast<std::streamoff>(kReadBytes)));
  std::string text(kReadBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  tail.feed(text);
  return tail;
}

}  // namespace lockstep
