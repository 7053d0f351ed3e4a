#include "lockstep/data/files/text_encoding.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using namespace std::string_view_literals;

// iconv(1)'s name for the encoding; null: not UTF-16 or UTF-32.
const char* wide_encoding(std::string_view bytes) {
  const auto begins_with = [&](std::string_view mark) { return bytes.substr(0, mark.size()) == mark; };
  if (begins_with("\xff\xfe\0\0"sv) || begins_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (begins_with("\xff\xfe"sv) || begins_with("\xfe\xff"sv)) return "UTF-16";
  if (bytes.size() < 4) return nullptr;
  const auto has_nuls_at = [&](std::size_t place) { return bytes[place] == '\0' && bytes[place + 2] == '\0'; };
  if (has_nuls_at(1) && bytes[0] != '\0' && bytes[2] != '\0') return "UTF-16LE";
  if (has_nuls_at(0) && bytes[1] != '\0' && bytes[3] != '\0') return "UTF-16BE";
  return nullptr;
}

}  // namespace

void refuse_wide_text(std::string_view bytes, const std::string& path) {
  const char* encoding = wide_encoding(bytes);
  if (encoding == nullptr) return;
  throw Error(fmt::format("the file looks like {}, and texts are read as UTF-8", encoding), path,
              fmt::format("convert it: iconv -f {} -t UTF-8 '{}' > converted-file", encoding, path));
}

}  // namespace lockstep
