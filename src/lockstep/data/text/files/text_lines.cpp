#include "lockstep/data/text/files/text_lines.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

constexpr std::int64_t kLargestFileBytes = std::int64_t{1} << 30;

}  // namespace

std::string read_tokenizer_file(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    throw Error("cannot read the file: " + errno_text(errno), path, "check the path and its permissions");
  }
  if (!S_ISREG(status.st_mode)) throw Error("this is not a regular file", path, "name a file");
  if (status.st_size > kLargestFileBytes) {
    throw Error("the file has " + std::to_string(status.st_size) + " bytes, too many for a tokenizer's file", path,
                "name a tokenizer's file");
  }
  return read_file(path);
}

void for_each_line(const std::string& path, const std::function<void(std::string_view, const std::string&)>& use) {
  const std::string content = read_tokenizer_file(path);
  std::string_view rest = content;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const std::string where = path + ":" + std::to_string(number);
    if (const auto bad = find_invalid_utf8(line)) {
      throw Error("byte " + std::to_string(*bad + 1) + " of the line is not UTF-8", where, "store the file as UTF-8");
    }
    if (line.find('\0') != std::string_view::npos) {
      throw Error("the line contains a NUL byte", where, "this is not a text file: download it again");
    }
    use(line, where);
  }
}

}  // namespace lockstep::text
