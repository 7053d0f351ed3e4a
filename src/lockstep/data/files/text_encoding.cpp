#include "lockstep/data/files/text_encoding.h"

#include <fmt/format.h>

#include <algorithm>

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

// A format of bytes that are not a text: its first bytes, and the way to make a text of it.
struct BinaryFormat {
  std::string_view first_bytes;
  const char* name;
  const char* fix;
};
constexpr const char* kToCsv =
    "write it as JSON Lines, in Python: datasets.load_dataset(...).to_json(\"data.jsonl\"), or "
    "pandas.read_...(FILE).to_json(\"data.jsonl\", orient=\"records\", lines=True)";
constexpr BinaryFormat kBinaryFormats[] = {
    {"BZh"sv, "bzip2-compressed", "decompress it: bunzip2 -k FILE; gzip and zstd are read as they are"},
    {"\xfd"
     "7zXZ\0"sv,
     "xz-compressed", "decompress it: xz -dk FILE; gzip and zstd are read as they are"},
    {"\x04\x22\x4d\x18"sv, "lz4-compressed", "decompress it: lz4 -d FILE; gzip and zstd are read as they are"},
    {"PK\x03\x04"sv, "a zip archive (or a spreadsheet, which is one)",
     "unpack it: unzip FILE; of a spreadsheet, save the sheet as CSV"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7-zip archive", "unpack it: 7z x FILE"},
    {"ARROW1"sv, "an Arrow file", "give it a name that ends in .arrow, under which it is read"},
    {"\xff\xff\xff\xff"sv, "a stream of Arrow, as datasets.save_to_disk writes it",
     "give it a name that ends in .arrow, under which it is read, or name its folder"},
    {"PAR1"sv, "Parquet", "give it a name that ends in .parquet, under which it is read"},
    {"SQLite format 3\0"sv, "an SQLite database",
     "export the table: sqlite3 -header -csv FILE 'select ...' > data.csv"},
    {"\xd0\xcf\x11\xe0"sv, "an old office document", "save the sheet as CSV"},
    {"\x89HDF"sv, "HDF5", kToCsv},
    {"\x93NUMPY"sv, "an array of NumPy", kToCsv},
    {"%PDF"sv, "a PDF", "extract its text: pdftotext FILE"},
    {"\x89PNG"sv, "a PNG image", "name a file of texts"},
    {"\xff\xd8\xff"sv, "a JPEG image", "name a file of texts"},
    {"\x7f"
     "ELF"sv,
     "a program", "name a file of texts"},
};

}  // namespace

void refuse_binary(std::string_view bytes, const std::string& path) {
  for (const BinaryFormat& format : kBinaryFormats) {
    if (bytes.substr(0, format.first_bytes.size()) != format.first_bytes) continue;
    // A text may begin with letters of one of them: "BZh", "PK".
    const std::string_view start = bytes.substr(0, 512);
    const bool is_text = std::all_of(start.begin(), start.end(), [](char c) {
      return static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\r' || c == '\t';
    });
    if (is_text && format.first_bytes.front() > 0x20) continue;
    throw Error(fmt::format("the file is {}, not text", format.name), path, format.fix);
  }
}

void refuse_wide_text(std::string_view bytes, const std::string& path) {
  refuse_binary(bytes, path);
  const char* encoding = wide_encoding(bytes);
  if (encoding == nullptr) return;
  throw Error(fmt::format("the file looks like {}, but texts are read as UTF-8", encoding), path,
              fmt::format("convert it: iconv -f {} -t UTF-8 '{}' > converted-file", encoding, path));
}

}  // namespace lockstep
