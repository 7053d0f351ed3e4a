#include "lockstep/launch/ranks/last_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace lockstep {
namespace {

constexpr std::size_t kLooked = 1000;  // lines

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// "[W Context.cpp:70] ", "[W1122 10:00:00.123 Context.cpp:70] ", "I1122 10:00:00.123 77 file.cc:5] ", or one of these
// after "[rank0]:".
bool is_noise(std::string_view line) {
  if (line.substr(0, 5) == "[rank") line.remove_prefix(std::min(line.find(':') + 1, line.size()));
  if (!line.empty() && line[0] == '[') line.remove_prefix(1);
  if (line.size() < 6 || (line[0] != 'W' && line[0] != 'I')) return false;
  const bool has_date = std::all_of(line.begin() + 1, line.begin() + 5, is_digit) && line[5] == ' ';
  if (!has_date && line[1] != ' ') return false;
  const std::size_t end = line.find("] ");
  if (end == std::string_view::npos || !is_digit(line[end - 1])) return false;
  const std::string_view place = line.substr(0, end);
  return place.find(':') != std::string_view::npos && place.find('.') != std::string_view::npos;
}

bool is_terminate(const std::string& line) { return line.find("terminate called") != std::string::npos; }

}  // namespace

std::vector<std::string> last_words(const TextTail& tail, std::size_t most) {
  std::vector<std::string> lines = tail.last_lines(kLooked);
  const auto noise =
      std::stable_partition(lines.begin(), lines.end(), [](const auto& line) { return !is_noise(line); });
  if (noise != lines.begin()) lines.erase(noise, lines.end());
  if (lines.size() <= most) return lines;
  const auto last = std::find_if(lines.rbegin(), lines.rend(), is_terminate);
  const std::size_t begin = last == lines.rend() ? lines.size() : static_cast<std::size_t>(lines.rend() - last) - 1;
  const std::size_t tail_begin = lines.size() - most;
  if (begin >= tail_begin) return {lines.end() - static_cast<std::ptrdiff_t>(most), lines.end()};
  // Keeps both ends of a long message.
  const auto head = lines.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto half = static_cast<std::ptrdiff_t>(most / 2);
  std::vector<std::string> kept(head, head + half);
  kept.push_back(fmt::format("({} lines are left out)", lines.size() - begin - most + 1));
  kept.insert(kept.end(), lines.end() - (static_cast<std::ptrdiff_t>(most) - half - 1), lines.end());
  return kept;
}

}  // namespace lockstep
