// Which names are those of something secret.
#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "lockstep/base/text/affixes.h"
#include "lockstep/base/text/hidden_secrets.h"
#include "lockstep/base/text/lower_case.h"

namespace lockstep {
namespace {

bool is_capital(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
bool is_part_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// "--hubToken", "HUB_TOKEN" and "hub.token" are hub and token; "APIKey" is api and key.
std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  std::string part;
  const auto end_part = [&] {
    if (!part.empty()) parts.push_back(lower_case(part));
    part.clear();
  };
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool begins_word =
        i > 0 && is_capital(c) &&
        (!is_capital(name[i - 1]) || (i + 1 < name.size() && is_part_of_word(name[i + 1]) && !is_capital(name[i + 1])));
    if (!is_part_of_word(c) || begins_word) end_part();
    if (is_part_of_word(c)) part += c;
  }
  end_part();
  return parts;
}

// As in "tokenizer" and "TOKENIZERS_PARALLELISM".
bool begins_tokenizer(const std::string& text, std::size_t token) {
  const std::string_view after = std::string_view(text).substr(token + 5);
  return starts_with(after, "iz") || starts_with(after, "is");
}

bool holds_token(const std::string& part) {
  for (std::size_t at = part.find("token"); at != std::string::npos; at = part.find("token", at + 1)) {
    if (!begins_tokenizer(part, at)) return true;
  }
  return false;
}

bool has_one_of(const std::vector<std::string>& parts, const std::set<std::string>& names) {
  return std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return names.count(part) != 0; });
}

// Tokens of a text: those that are counted, and those that have a name. No part of the name may say something else.
bool counts_tokens(const std::vector<std::string>& parts) {
  static const std::set<std::string> of_tokens{"max",     "min",   "num",    "new", "total", "average", "avg",
                                               "special", "input", "output", "per", "seen",  "across"};
  static const std::set<std::string> of_token{"max", "min", "num", "pad", "eos", "bos", "unk", "cls", "sep", "mask"};
  static const std::set<std::string> beside{"token", "tokens",  "id",    "ids",        "include", "no",       "add",
                                            "skip",  "devices", "train", "additional", "decoder", "generated"};
  const bool is_of_text = std::all_of(parts.begin(), parts.end(), [](const auto& part) {
    return of_tokens.count(part) + of_token.count(part) + beside.count(part) != 0;
  });
  return is_of_text && (has_one_of(parts, {"tokens"}) ? has_one_of(parts, of_tokens) : has_one_of(parts, of_token));
}

// Keys of tables and of dictionaries: "--sort-keys", "--key-metric".
bool names_a_column(const std::vector<std::string>& parts) {
  return has_one_of(
      parts, {"sort", "sorted", "primary", "foreign", "group", "join", "metric", "column", "columns", "field", "fields",
              "index", "frame", "by", "missing", "unexpected", "ignore", "ignored", "binding"});
}

bool is_key(const std::string& part) {
  static const std::set<std::string> others{"monkey", "turkey", "donkey", "hotkey", "hotkeys"};
  return (ends_with(part, "key") || ends_with(part, "keys")) && others.count(part) == 0;
}

// "--pin" and "--pin-code", but not "--pin-memory".
bool ends_with_pin(const std::vector<std::string>& parts) {
  return parts.back() == "pin" ||
         (parts.size() > 1 && parts[parts.size() - 2] == "pin" && (parts.back() == "code" || parts.back() == "number"));
}

// "--session-id", but not "--session".
bool names_a_session(const std::vector<std::string>& parts) {
  return has_one_of(parts, {"session", "sess", "sid"}) && has_one_of(parts, {"id", "sid", "data"});
}

bool is_pass(const std::string& part) {
  static const std::set<std::string> others{"bypass", "compass"};
  return ends_with(part, "pass") && others.count(part) == 0;
}

bool is_of_author(const std::string& part) { return starts_with(part, "author") && !starts_with(part, "authori"); }

bool is_secret_part(const std::string& part) {
  static const std::set<std::string> whole{"cred",    "creds",   "cookie",  "cookies",  "jwt",      "sas",
                                           "sig",     "pat",     "pw",      "pws",      "psw",      "pswd",
                                           "otp",     "totp",    "mfa",     "psk",      "dsn",      "pem",
                                           "licence", "license", "webhook", "mnemonic", "sessionid"};
  static const char* const held[] = {"secret", "passw",  "passphrase", "passcode", "pwd",
                                     "bearer", "apikey", "credential", "signature"};
  if (whole.count(part) != 0 || is_pass(part)) return true;
  if (part.find("auth") != std::string::npos && !is_of_author(part)) return true;
  return std::any_of(std::begin(held), std::end(held),
                     [&](const char* word) { return part.find(word) != std::string::npos; });
}

}  // namespace

bool may_name_a_secret(const std::string& name) {
  const std::vector<std::string> parts = parts_of(name);
  if (parts.empty()) return false;
  if (std::any_of(parts.begin(), parts.end(), is_secret_part)) return true;
  if (std::any_of(parts.begin(), parts.end(), is_key) && !names_a_column(parts)) return true;
  if (ends_with_pin(parts) || names_a_session(parts)) return true;
  const bool has_token = std::any_of(parts.begin(), parts.end(), holds_token);
  if (has_token) return !counts_tokens(parts);
  // "PASSWORD" in pieces, as "pass-word" or "PassWord".
  std::string joined;
  for (const std::string& part : parts) joined += part;
  for (const char* word : {"password", "passphrase", "passwd", "apikey", "credential", "connectionstring"}) {
    if (joined.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace lockstep
