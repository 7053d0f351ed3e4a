#include "lockstep/base/text/hidden_secrets.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "lockstep/base/text/affixes.h"
#include "lockstep/base/text/lower_case.h"

namespace lockstep {
namespace {

constexpr const char* kHidden = "...";

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool is_of_name(char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; }

// How the tokens of services begin, and how many characters follow at least.
struct TokenForm {
  const char* start;
  std::size_t more;
  bool is_word_too;  // such a beginning may also be that of a word: then a digit or a capital must follow
};
constexpr TokenForm kTokenForms[] = {
    {"hf_", 4, false},   {"ghp_", 4, false},     {"gho_", 4, false},        {"ghu_", 4, false},
    {"ghs_", 4, false},  {"ghr_", 4, false},     {"github_pat_", 4, false}, {"glpat-", 4, false},
    {"sk-", 6, true},    {"sk_live_", 4, false}, {"sk_test_", 4, false},    {"xoxb-", 4, false},
    {"xoxp-", 4, false}, {"xoxa-", 4, false},    {"xapp-", 4, false},       {"AKIA", 6, true},
    {"ASIA", 6, true},   {"AIza", 10, true},     {"ya29.", 6, false},       {"eyJ", 12, true},
    {"npm_", 10, true},  {"pypi-", 10, true},    {"dop_v1_", 4, false},     {"nvapi-", 6, true},
    {"r8_", 8, true}};

// The end of a service's token that begins at `at`; `at` itself: none does.
std::size_t end_of_token(const std::string& text, std::size_t at) {
  for (const TokenForm& form : kTokenForms) {
    const std::string_view start = form.start;
    if (text.compare(at, start.size(), start) != 0) continue;
    std::size_t end = at + start.size();
    bool has_other = false;
    while (end < text.size() && is_of_name(text[end])) {
      const bool is_small = std::islower(static_cast<unsigned char>(text[end])) != 0;
      has_other = has_other || (is_letter_or_digit(text[end]) && !is_small);
      ++end;
    }
    const bool is_long = end - at - start.size() >= form.more;
    const bool is_path = end < text.size() && text[end] == '/';
    if (is_long && !is_path && (has_other || !form.is_word_too)) return end;
  }
  return at;
}

std::string without_tokens(const std::string& text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins = at == 0 || !(is_of_name(text[at - 1]) || text[at - 1] == '/');
    const std::size_t end = begins ? end_of_token(text, at) : at;
    shown += end > at ? std::string(kHidden) : std::string(1, text[at]);
    at = end > at ? end : at + 1;
  }
  return shown;
}

// "https://user:password@host" is "https://...@host"; also without a scheme.
std::string without_users(std::string text) {
  for (std::size_t at = text.find("://"); at != std::string::npos; at = text.find("://", at + 1)) {
    const std::size_t begin = at + 3;
    const std::size_t end = std::min(text.find_first_of("/?# \t\n\"'", begin), text.size());
    const std::size_t user_end = text.substr(0, end).rfind('@');
    if (user_end != std::string::npos && user_end >= begin) text.replace(begin, user_end - begin, kHidden);
  }
  const std::size_t colon = text.find(':'), user_end = text.rfind('@');
  const bool is_plain = text.find_first_of("/ \t\n") == std::string::npos;
  if (is_plain && colon != std::string::npos && user_end != std::string::npos && colon < user_end) {
    const std::size_t equals = text.rfind('=', colon);
    const std::size_t begin = equals == std::string::npos ? 0 : equals + 1;
    text.replace(begin, user_end - begin, kHidden);
  }
  return text;
}

// The name that ends before a ':' or '=' at `at`, with blanks and a quote between; and where it begins.
std::string name_before(const std::string& text, std::size_t at, std::size_t& begin) {
  std::size_t end = at;
  while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '"' || text[end - 1] == '\'')) --end;
  begin = end;
  while (begin > 0 && is_of_name(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

// Where a value ends that begins at `at`: at its quote, or where the next parameter of a query begins; else, it is all
// the rest.
std::size_t end_of_value(const std::string& text, std::size_t at, std::size_t name) {
  const char before = at > 0 ? text[at - 1] : '\0';
  if (before == '"' || before == '\'') return std::min(text.find(before, at), text.size());
  const bool is_of_query = name > 0 && (text[name - 1] == '?' || text[name - 1] == '&' || text[name - 1] == '#');
  return is_of_query ? std::min(text.find_first_of("&#", at), text.size()) : text.size();
}

// `NAME=value` and `name: value` within a word.
std::string without_named(std::string text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != ':' && text[at] != '=') continue;
    if (text.compare(at, 3, "://") == 0) continue;
    std::size_t name = 0;
    if (!may_name_a_secret(name_before(text, at, name))) continue;
    std::size_t begin = at + 1;
    while (begin < text.size() && text[begin] == ' ') ++begin;
    if (begin < text.size() && (text[begin] == '"' || text[begin] == '\'')) ++begin;
    if (begin >= text.size()) continue;
    text.replace(begin, end_of_value(text, begin, name) - begin, kHidden);
    at = begin + 2;  // the last of the dots
  }
  return text;
}

// "Bearer X" and "Basic X"
std::string without_bearer(std::string text) {
  const std::string small = lower_case(text);
  for (const char* scheme : {"bearer ", "basic "}) {
    const std::size_t at = small.find(scheme);
    const bool begins = at != std::string::npos && (at == 0 || !is_of_name(small[at - 1]));
    if (begins) return text.substr(0, at + std::char_traits<char>::length(scheme)) + kHidden;
  }
  return text;
}

bool is_scheme(const std::string& word) {
  static const std::set<std::string> schemes{"bearer", "basic", "token"};
  return schemes.count(lower_case(word)) != 0;
}

// "--output-dir", but not "-abc" or "--A1", which may be values.
bool is_long_flag(const std::string& word) {
  if (word.size() < 4 || !starts_with(word, "--")) return false;
  const std::string name = word.substr(2, word.find('=') == std::string::npos ? word.npos : word.find('=') - 2);
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; });
}

// Whether the word after this one is its value, and may be secret.
bool announces_a_secret(const std::string& word) {
  if (word == "Bearer" || word == "bearer") return true;
  const bool is_flag = starts_with(word, "-") && word.find('=') == std::string::npos;
  const bool is_header = ends_with(word, ":") || ends_with(word, "=");
  return (is_flag || is_header) && word.find_first_of(" \t\n") == std::string::npos && may_name_a_secret(word);
}

}  // namespace

std::vector<std::string> with_hidden_secrets(const std::vector<std::string>& words) {
  std::vector<std::string> shown;
  bool hides_next = false;
  for (const std::string& word : words) {
    const bool is_hidden = hides_next && !is_long_flag(word);
    shown.push_back(is_hidden ? kHidden : without_tokens(without_bearer(without_named(without_users(word)))));
    hides_next = is_hidden ? is_scheme(word) : announces_a_secret(word);
  }
  return shown;
}

}  // namespace lockstep
