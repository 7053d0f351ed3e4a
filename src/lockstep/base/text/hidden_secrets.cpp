#include "lockstep/base/text/hidden_secrets.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "lockstep/base/text/affixes.h"
#include "lockstep/base/text/lower_case.h"
#include "lockstep/base/text/secrets_of_urls.h"

namespace lockstep {
namespace {

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

// The end of a service's token that begins at `at`; `at` itself: none does. Folders have such names too
// ("out/hf_bert2"): after a slash, a token is longer and has a capital.
std::size_t end_of_token(const std::string& text, std::size_t at) {
  constexpr std::size_t kMoreAfterSlash = 8;
  const bool is_after_slash = at > 0 && text[at - 1] == '/';
  for (const TokenForm& form : kTokenForms) {
    const std::string_view start = form.start;
    if (text.compare(at, start.size(), start) != 0) continue;
    std::size_t end = at + start.size();
    bool has_other = false, has_capital = false;
    while (end < text.size() && is_of_name(text[end])) {
      const bool is_small = std::islower(static_cast<unsigned char>(text[end])) != 0;
      has_other = has_other || (is_letter_or_digit(text[end]) && !is_small);
      has_capital = has_capital || std::isupper(static_cast<unsigned char>(text[end])) != 0;
      ++end;
    }
    const bool is_long = end - at - start.size() >= (is_after_slash ? std::max(form.more, kMoreAfterSlash) : form.more);
    const bool is_path = end < text.size() && text[end] == '/';
    const bool looks_random = is_after_slash ? has_capital : has_other || !form.is_word_too;
    if (is_long && !is_path && looks_random) return end;
  }
  return at;
}

std::string without_tokens(const std::string& text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins = at == 0 || !is_of_name(text[at - 1]);
    const std::size_t end = begins ? end_of_token(text, at) : at;
    shown += end > at ? std::string(kHiddenSecret) : std::string(1, text[at]);
    at = end > at ? end : at + 1;
  }
  return shown;
}

// The name that ends before a ':' or '=' at `at`, with blanks and a quote between; and where it begins.
std::string name_before(const std::string& text, std::size_t at, std::size_t& begin) {
  std::size_t end = at;
  while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '"' || text[end - 1] == '\'')) --end;
  begin = end;
  while (begin > 0 && is_of_name(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

// Where `quote` closes what begins at `at`; a backslash takes the next character with it.
std::size_t end_of_quoted(const std::string& text, std::size_t at, char quote) {
  while (at < text.size() && text[at] != quote) at += text[at] == '\\' ? 2 : 1;
  return std::min(at, text.size());
}

// Where a value ends that begins at `at`: at its quote, or where the next parameter of a query begins; else, it is all
// the rest.
std::size_t end_of_value(const std::string& text, std::size_t at, std::size_t name) {
  const char before = at > 0 ? text[at - 1] : '\0';
  if (before == '"' || before == '\'') return end_of_quoted(text, at, before);
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
    text.replace(begin, end_of_value(text, begin, name) - begin, kHiddenSecret);
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
    if (begins) return text.substr(0, at + std::char_traits<char>::length(scheme)) + kHiddenSecret;
  }
  return text;
}

// A key's block in PEM, with everything after its first line.
std::string without_key_block(const std::string& text) {
  const std::size_t at = text.find("-----BEGIN");
  return at == std::string::npos ? text : text.substr(0, at) + kHiddenSecret;
}

std::string without_secrets(const std::string& word) {
  return without_tokens(without_bearer(without_named(without_users(without_hooks(without_key_block(word))))));
}

// How a header's value may begin: the secret follows as the next word.
bool is_scheme(const std::string& word) {
  static const std::set<std::string> schemes{"bearer", "basic", "token", "digest", "negotiate", "ntlm", "apikey"};
  return schemes.count(lower_case(word)) != 0;
}

bool is_flag(const std::string& word) { return starts_with(word, "-") && word.size() > 1; }

// "--output-dir", but not "-abc" or "--A1", which may be values.
bool is_long_flag(const std::string& word) {
  if (word.size() < 4 || !starts_with(word, "--")) return false;
  const std::string name = word.substr(2, word.find('=') == std::string::npos ? word.npos : word.find('=') - 2);
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; });
}

// "--use-auth-token", which takes no value.
bool is_switch(const std::string& flag) {
  for (const char* start : {"--use", "--no-", "--with", "--enable", "--disable", "--allow", "--require", "--skip",
                            "--has-", "--is-", "--show", "--print", "--list", "--hide"}) {
    if (starts_with(flag, start)) return true;
  }
  return false;
}

bool is_yes_or_no(const std::string& word) {
  static const std::set<std::string> answers{"true", "false", "yes", "no", "none", "null"};
  return answers.count(lower_case(word)) != 0;
}

// curl's "-u user:password", "--user" and "--proxy-user", and others' "--login".
bool names_a_user(const std::string& flag) {
  const std::string name = lower_case(flag);
  return name == "-u" || ends_with(name, "user") || ends_with(name, "username") || ends_with(name, "login");
}

// "user:password", but not "https://host".
bool is_user_and_password(const std::string& text) {
  const std::size_t colon = text.find(':');
  return colon != std::string::npos && colon + 1 < text.size() && text.compare(colon, 3, "://") != 0;
}

// "--user=me:password" and "-ume:password"
std::string without_user_flag(const std::string& word) {
  const std::size_t equals = word.find('=');
  const bool is_long = starts_with(word, "--");
  if (is_long && (equals == std::string::npos || !names_a_user(word.substr(0, equals)))) return word;
  if (!is_long && !starts_with(word, "-u")) return word;
  const std::size_t begin = is_long ? equals + 1 : 2;
  return is_user_and_password(word.substr(begin)) ? word.substr(0, begin) + kHiddenSecret : word;
}

// Whether the word after this one may be secret, although this is not a flag: a header's name, its scheme, or a word of
// a program that has no dashes ("login password X").
bool announces_one(const std::string& word, bool is_value) {
  static const std::set<std::string> names{"token",  "password", "passwd",  "passphrase",
                                           "secret", "api-key",  "api_key", "api-token"};
  const std::string small = lower_case(word);
  if (small == "bearer" || (!is_value && names.count(small) != 0)) return true;
  const std::size_t colon = word.rfind(':');
  const std::size_t end = colon == std::string::npos ? word.find('=') : colon;
  if (end == std::string::npos || word.find_first_of(" \t\n") != std::string::npos) return false;
  const std::string value = word.substr(end + 1);
  return (value.empty() || is_scheme(value)) && may_name_a_secret(word.substr(0, end));
}

// Reads a command line word by word.
class SecretWords {
 public:
  std::string shown(const std::string& word) {
    if (hides_values_ && !ends_values(word)) {
      hides_values_ = !is_long_flag(word);  // after a value that looks like a flag there is no other
      ++values_;
      return is_yes_or_no(word) ? word : kHiddenSecret;
    }
    if (hides_one_ && !is_long_flag(word)) {
      hides_one_ = is_scheme(word);
      return kHiddenSecret;
    }
    const bool is_value = !flag_.empty() && !is_flag(word) && values_++ == 0;
    const bool is_user = is_value && names_a_user(flag_) && is_user_and_password(word);
    look(word, is_value);
    return is_user ? kHiddenSecret : without_secrets(without_user_flag(word));
  }

 private:
  // A secret may begin with dashes, so a flag's first value is one unless the flag is a switch.
  bool ends_values(const std::string& word) const {
    return values_ == 0 ? is_switch(flag_) && is_long_flag(word) : is_flag(word);
  }

  void look(const std::string& word, bool is_value) {
    hides_values_ = false;
    hides_one_ = announces_one(word, is_value);
    if (!is_flag(word)) return;
    const bool has_value = word.find_first_of("= \t\n") != std::string::npos;
    flag_ = has_value ? "" : word;
    values_ = 0;
    hides_values_ = !has_value && may_name_a_secret(word);
  }

  std::string flag_;           // the last one whose value is another word
  int values_ = 0;             // words since then
  bool hides_values_ = false;  // the flag's, of which there may be several
  bool hides_one_ = false;     // the next word
};

}  // namespace

std::vector<std::string> with_hidden_secrets(const std::vector<std::string>& words) {
  std::vector<std::string> shown;
  SecretWords reader;
  for (const std::string& word : words) shown.push_back(reader.shown(word));
  return shown;
}

}  // namespace lockstep
