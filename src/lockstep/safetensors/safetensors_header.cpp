#include "lockstep/detail/safetensors/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr int kMaxIgnoredDepth = 32;
constexpr std::uint64_t kMaxDimension = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse(const std::string& reason, const std::string& path) {
  throw Error("not a valid safetensors file: " + reason, path, "download or write the file again");
}

std::string shown(std::string_view name) {
  constexpr std::size_t kMaxShown = 80;
  return fmt::format("\"{}{}\"", name.substr(0, kMaxShown), name.size() > kMaxShown ? "…" : "");
}

// Handles the JSON's tokens one by one; returning false stops the parser. Keeps what it needs and never builds a tree,
// so nesting costs nothing.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(SafetensorsHeader& header) : header_(header) {}

  const std::string& reason() const { return reason_; }

  bool null() override {
    if (level_ == Level::Tensors && key_is_metadata_) return true;  // treated like a missing one
    return scalar("null");
  }
  bool boolean(bool) override { return scalar("a truth value"); }
  bool number_integer(number_integer_t) override { return scalar("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return scalar("a number that is not whole"); }
  bool binary(binary_t&) override { return stop("binary data"); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& value) override;
  bool start_object(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return stop(fmt::format("the header is not JSON at byte {}", position));
  }

 private:
  enum class Level { Start, Tensors, Metadata, Tensor, Shape, Offsets, Ignored };
  enum Field : unsigned { kNone = 0, kDtype = 1, kShape = 2, kOffsets = 4, kAll = 7 };

  bool stop(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
    return false;
  }
  bool stop_in_tensor(const std::string& reason) {
    return stop(fmt::format("tensor {}: {}", shown(header_.entries.back().name), reason));
  }
  bool scalar(const char* what);
  bool enter_ignored() {
    level_ = Level::Ignored;
    ignored_depth_ = 1;
    return true;
  }
  bool deeper() { return ++ignored_depth_ <= kMaxIgnoredDepth || stop("values are nested too deeply"); }
  bool leave_ignored() {
    if (--ignored_depth_ == 0) level_ = Level::Tensor;
    return true;
  }

  SafetensorsHeader& header_;
  std::string reason_;
  Level level_ = Level::Start;
  bool key_is_metadata_ = false;
  bool has_metadata_ = false;
  std::string metadata_key_;
  Field field_ = kNone;       // of the current tensor
  unsigned seen_fields_ = 0;  // of the current tensor
  std::size_t offsets_ = 0;   // how many of its two offsets were read
  int ignored_depth_ = 0;
};

bool HeaderReader::scalar(const char* what) {
  switch (level_) {
    case Level::Start:
      return stop("the header is not a JSON object");
    case Level::Tensors:
      return stop(fmt::format("there is {} where a tensor or __metadata__ was expected", what));
    case Level::Metadata:
      return stop(fmt::format("__metadata__ {} is {}, not a string", shown(metadata_key_), what));
    case Level::Tensor:
      return field_ == kNone ||
             stop_in_tensor(fmt::format("there is {} in place of dtype, shape or data_offsets", what));
    case Level::Shape:
    case Level::Offsets:
      return stop_in_tensor(fmt::format("there is {} in shape or data_offsets", what));
    case Level::Ignored:
      return true;
  }
  return false;
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  if (level_ == Level::Shape) {
    if (value > kMaxDimension) return stop_in_tensor(fmt::format("dimension {} overflows", value));
    header_.entries.back().shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  if (level_ != Level::Offsets) return scalar("a number");
  SafetensorsEntry& entry = header_.entries.back();
  if (offsets_ == 2) return stop_in_tensor("data_offsets has more than two numbers");
  (offsets_++ == 0 ? entry.begin_byte : entry.end_byte) = value;
  return true;
}

bool HeaderReader::string(string_t& value) {
  if (level_ == Level::Metadata) {
    if (!header_.metadata.emplace(metadata_key_, value).second) {
      return stop(fmt::format("__metadata__ has {} twice", shown(metadata_key_)));
    }
    return true;
  }
  if (level_ != Level::Tensor || field_ != kDtype) return scalar("a string");
  if (safetensors_dtype_bits(value) == 0) return stop_in_tensor("dtype " + shown(value) + " is unknown");
  header_.entries.back().dtype = std::move(value);
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  switch (level_) {
    case Level::Start:
      level_ = Level::Tensors;
      return true;
    case Level::Tensors:
      level_ = key_is_metadata_ ? Level::Metadata : Level::Tensor;
      field_ = kNone;
      seen_fields_ = 0;
      return true;
    case Level::Tensor:
      return field_ == kNone ? enter_ignored() : scalar("an object");
    case Level::Ignored:
      return deeper();
    default:
      return scalar("an object");
  }
}

bool HeaderReader::key(string_t& name) {
  if (level_ == Level::Metadata) {
    metadata_key_ = std::move(name);
  } else if (level_ == Level::Tensors) {
    key_is_metadata_ = name == "__metadata__";
    if (key_is_metadata_) return !std::exchange(has_metadata_, true) || stop("__metadata__ is given twice");
    header_.entries.emplace_back().name = std::move(name);
  } else if (level_ == Level::Tensor) {
    field_ = name == "dtype" ? kDtype : name == "shape" ? kShape : name == "data_offsets" ? kOffsets : kNone;
    if (seen_fields_ & field_) return stop_in_tensor(shown(name) + " is given twice");
    seen_fields_ |= field_;
  }
  return true;
}

bool HeaderReader::end_object() {
  if (level_ == Level::Ignored) return leave_ignored();
  if (level_ == Level::Tensor && seen_fields_ != kAll) {
    return stop_in_tensor(!(seen_fields_ & kDtype)   ? "dtype is missing"
                          : !(seen_fields_ & kShape) ? "shape is missing"
                                                     : "data_offsets is missing");
  }
  level_ = Level::Tensors;
  return true;
}

bool HeaderReader::start_array(std::size_t) {
  if (level_ == Level::Ignored) return deeper();
  if (level_ != Level::Tensor) return scalar("an array");
  if (field_ == kNone) return enter_ignored();
  if (field_ == kDtype) return scalar("an array");
  level_ = field_ == kShape ? Level::Shape : Level::Offsets;
  offsets_ = 0;
  return true;
}

bool HeaderReader::end_array() {
  if (level_ == Level::Ignored) return leave_ignored();
  if (level_ == Level::Offsets && offsets_ != 2) return stop_in_tensor("data_offsets has fewer than two numbers");
  level_ = Level::Tensor;
  return true;
}

// The number of bytes that dtype and shape require.
std::uint64_t needed_bytes(const SafetensorsEntry& entry, const std::string& path) {
  std::uint64_t bits = 1;
  bool overflow = false;
  for (const std::int64_t size : entry.shape) {
    overflow = overflow || __builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits);
  }
  overflow = overflow || __builtin_mul_overflow(bits, std::uint64_t{safetensors_dtype_bits(entry.dtype)}, &bits);
  const std::string name = shown(entry.name);
  if (overflow) refuse("tensor " + name + ": the number of elements overflows", path);
  if (bits % 8 != 0) refuse("tensor " + name + ": its " + entry.dtype + " elements do not fill whole bytes", path);
  return bits / 8;
}

void check_names(const std::vector<SafetensorsEntry>& entries, const std::string& path) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse("tensor " + shown(*twice) + " is given twice", path);
}

void sort_and_check_offsets(std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes, const std::string& path) {
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin_byte, a.end_byte, a.name) < std::tie(b.begin_byte, b.end_byte, b.name);
  });
  std::uint64_t expected = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string offsets = fmt::format("[{}, {}]", entry.begin_byte, entry.end_byte);
    if (entry.begin_byte != expected || entry.end_byte < entry.begin_byte) {
      refuse(fmt::format("tensor {}: data_offsets {} leave a hole or overlap: it should start at {}", shown(entry.name),
                         offsets, expected),
             path);
    }
    const std::uint64_t needed = needed_bytes(entry, path);
    if (entry.bytes() != needed) {
      refuse(fmt::format("tensor {}: data_offsets {} have {} bytes, but its shape needs {}", shown(entry.name), offsets,
                         entry.bytes(), needed),
             path);
    }
    expected = entry.end_byte;
  }
  if (expected != data_bytes) {
    refuse(fmt::format("the tensors have {} bytes, but {} follow the header: the file was truncated or appended to",
                       expected, data_bytes),
           path);
  }
}

std::string_view header_text(std::string_view file, std::uint64_t file_bytes, const std::string& path) {
  if (file_bytes < kLengthBytes || file.size() < kLengthBytes) {
    refuse(fmt::format("{} bytes are too few for the header's length", file_bytes), path);
  }
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(file[static_cast<std::size_t>(i)]);
  if (length > kMaxSafetensorsHeaderBytes) {
    refuse(fmt::format("its header claims {} bytes, but at most {} are allowed", length, kMaxSafetensorsHeaderBytes),
           path);
  }
  if (length > file_bytes - kLengthBytes || length > file.size() - kLengthBytes) {
    refuse(fmt::format("its header claims {} bytes, but the file has {}", length, file_bytes), path);
  }
  return file.substr(kLengthBytes, length);
}

}  // namespace

unsigned safetensors_dtype_bits(std::string_view dtype) {
  static constexpr std::pair<std::string_view, unsigned> kBits[] = {
      {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"F64", 64},    {"I64", 64},        {"I32", 32},
      {"I16", 16},    {"I8", 8},      {"U8", 8},      {"BOOL", 8},    {"U16", 16},        {"U32", 32},
      {"U64", 64},    {"C64", 64},    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto& [name, bits] : kBits) {
    if (name == dtype) return bits;
  }
  return 0;
}

SafetensorsHeader parse_safetensors_header(std::string_view file, std::uint64_t file_bytes, const std::string& path) {
  const std::string_view text = header_text(file, file_bytes, path);
  // The JSON parser would skip a byte order mark, and treat a NUL as the end of the text.
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') refuse("the header is not a JSON object", path);
  if (text.find('\0') != std::string_view::npos) refuse("the header is not JSON: it contains a zero byte", path);
  SafetensorsHeader header;
  HeaderReader reader(header);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) refuse(reader.reason(), path);
  header.data_offset = kLengthBytes + text.size();
  check_names(header.entries, path);
  sort_and_check_offsets(header.entries, file_bytes - header.data_offset, path);
  return header;
}

}  // namespace lockstep
