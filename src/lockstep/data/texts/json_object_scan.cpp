#include "lockstep/data/texts/json_object_scan.h"

#include <algorithm>

#include "lockstep/data/text/unicode/utf8.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lockstep {
namespace {

constexpr std::size_t kLongestNumber = 64;
constexpr int kDeepestJsonValue = 63;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool ends_plain_text(char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; }

// The first quote, backslash or control character from `at` on; `end` if there is none.
const char* find_text_mark(const char* at, const char* end) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i last_control = _mm_set1_epi8(0x1F);
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes);
    const __m128i marks =
        _mm_or_si128(controls, _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)));
    if (const int bits = _mm_movemask_epi8(marks)) return at + __builtin_ctz(static_cast<unsigned>(bits));
  }
#endif
  return std::find_if(at, end, ends_plain_text);
}

// The character that a backslash before `c` means; 0 for characters other than the eight.
char escaped(char c) {
  switch (c) {
    case '"':
    case '\\':
    case '/':
      return c;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return '\0';
  }
}

// The value of four hexadecimal digits; -1 for other characters.
int hex_number(const char* digits) {
  int number = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = digits[i];
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    number = 16 * number + digit;
  }
  return number;
}

// Appends the decoded text between two quotes. False for an escape that JSON does not have, and for surrogates.
bool decode_text(std::string_view text, std::string& out) {
  out.clear();
  for (;;) {
    const std::size_t plain = std::min(text.find('\\'), text.size());
    out.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) return true;
    if (text[1] != 'u') {
      const char c = escaped(text[1]);
      if (c == '\0') return false;
      out.push_back(c);
      text.remove_prefix(2);
      continue;
    }
    const int code_point = text.size() < 6 ? -1 : hex_number(text.data() + 2);
    if (code_point < 0 || (code_point >= 0xD800 && code_point < 0xE000)) return false;
    text::append_utf8(static_cast<char32_t>(code_point), out);
    text.remove_prefix(6);
  }
}

}  // namespace

bool JsonObjectScan::scan(std::string_view line, const std::vector<std::string>& keys, std::vector<JsonValue>& values) {
  at_ = line.data();
  end_ = line.data() + line.size();
  keys_ = &keys;
  values_ = &values;
  next_key_ = 0;
  for (JsonValue& value : values) value.kind = JsonValue::Kind::Missing;
  if (!scan_object()) return false;
  return std::none_of(values.begin(), values.end(),
                      [](const JsonValue& value) { return value.kind == JsonValue::Kind::Missing; });
}

bool JsonObjectScan::scan_object() {
  skip_blanks();
  if (!take('{')) return false;
  do {
    skip_blanks();
    std::string_view key;
    if (!scan_key(&key) || !scan_value(wanted_value(key))) return false;
    skip_blanks();
  } while (take(','));
  if (!take('}')) return false;
  skip_blanks();
  return at_ == end_;
}

// Reads a key, the colon and the blanks around it.
bool JsonObjectScan::scan_key(std::string_view* key) {
  if (!take('"')) return false;
  const char* const begin = at_;
  at_ = find_text_mark(at_, end_);
  *key = {begin, static_cast<std::size_t>(at_ - begin)};
  if (!take('"')) return false;
  skip_blanks();
  if (!take(':')) return false;
  skip_blanks();
  return true;
}

JsonValue* JsonObjectScan::wanted_value(std::string_view key) {
  for (std::size_t tried = 0; tried < keys_->size(); ++tried) {
    const std::size_t at = next_key_;
    next_key_ = at + 1 < keys_->size() ? at + 1 : 0;
    if ((*keys_)[at] == key) return &(*values_)[at];
  }
  return nullptr;
}

bool JsonObjectScan::scan_value(JsonValue* value) {
  switch (peek()) {
    case '"':
      return scan_text(value);
    case 't':
      return scan_word("true", JsonValue::Kind::Boolean, value);
    case 'f':
      return scan_word("false", JsonValue::Kind::Boolean, value);
    case 'n':
      return scan_word("null", JsonValue::Kind::Null, value);
    case '{':
    case '[':
      if (value != nullptr) value->set(JsonValue::Kind::Composite, "");
      return skip_composite();
    default:
      return scan_number(value);
  }
}

bool JsonObjectScan::scan_text(JsonValue* value) {
  const char* const begin = ++at_;
  bool has_escapes = false;
  for (;;) {
    at_ = find_text_mark(at_, end_);
    if (at_ == end_) return false;
    if (*at_ == '"') break;
    if (*at_ != '\\' || end_ - at_ < 2) return false;
    has_escapes = true;
    at_ += 2;
  }
  const std::string_view text(begin, static_cast<std::size_t>(at_++ - begin));
  if (!has_escapes) {
    if (value != nullptr) value->set(JsonValue::Kind::Text, text);
    return true;
  }
  if (value != nullptr) value->kind = JsonValue::Kind::Text;
  return decode_text(text, value != nullptr ? value->text : unwanted_);
}

bool JsonObjectScan::scan_number(JsonValue* value) {
  const char* const begin = at_;
  take('-');
  if (!take('0') && !take_digits()) return false;
  if (take('.') && !take_digits()) return false;
  std::ptrdiff_t exponent_digits = 0;
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    const char* const digits = at_;
    if (!take_digits()) return false;
    exponent_digits = at_ - digits;
  }
  const std::string_view text(begin, static_cast<std::size_t>(at_ - begin));
  // Within these limits no number overflows. The full parser turns -0 into 0.
  if (text.size() > kLongestNumber || exponent_digits > 2 || text == "-0") return false;
  if (value != nullptr) value->set(JsonValue::Kind::Number, text);
  return true;
}

bool JsonObjectScan::scan_word(std::string_view word, JsonValue::Kind kind, JsonValue* value) {
  if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).substr(0, word.size()) != word) return false;
  at_ += word.size();
  if (value != nullptr) value->set(kind, kind == JsonValue::Kind::Null ? "" : word);
  return true;
}

bool JsonObjectScan::skip_composite() {
  depth_ = 0;
  objects_ = 0;
  bool is_before_value = true;  // false: after a value
  do {
    if (is_before_value) {
      std::string_view key;
      if ((objects_ & 1) != 0 && !scan_key(&key)) return false;
      const bool is_composite = peek() == '{' || peek() == '[';
      if (is_composite ? !open() : !scan_value(nullptr)) return false;
      is_before_value = is_composite && peek() != closing();
      continue;
    }
    skip_blanks();
    if (take(',')) {
      skip_blanks();
      is_before_value = true;
    } else if (take(closing())) {
      objects_ >>= 1;
      --depth_;
    } else {
      return false;
    }
  } while (depth_ > 0);
  return true;
}

bool JsonObjectScan::open() {
  if (++depth_ > kDeepestJsonValue) return false;
  objects_ = objects_ << 1 | std::uint64_t{*at_++ == '{'};
  skip_blanks();
  return true;
}

void JsonObjectScan::skip_blanks() {
  while (at_ < end_ && is_blank(*at_)) ++at_;
}

bool JsonObjectScan::take(char wanted) {
  if (at_ == end_ || *at_ != wanted) return false;
  ++at_;
  return true;
}

bool JsonObjectScan::take_digits() {
  const char* const begin = at_;
  while (at_ < end_ && is_digit(*at_)) ++at_;
  return at_ > begin;
}

}  // namespace lockstep
