#include "lockstep/base/text/secrets_of_urls.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "lockstep/base/text/lower_case.h"

namespace lockstep {
namespace {

constexpr const char* kEndOfAddress = " \t\n\"'";

// "host:29500", and also "[::1]:29500"; "user:password" is not.
bool is_host_and_port(const std::string& authority) {
  const std::size_t colon = authority.rfind(':');
  return colon == std::string::npos || authority[0] == '[' ||
         std::all_of(authority.begin() + static_cast<std::ptrdiff_t>(colon) + 1, authority.end(),
                     [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
}

// "https://api.telegram.org/bot1:TOKEN/sendMessage"
bool is_of_bot(const std::string& address) {
  const std::size_t bot = address.find("/bot");
  return bot != address.npos && bot + 4 < address.size() && std::isdigit(static_cast<unsigned char>(address[bot + 4]));
}

// Where the user and password end that begin at `begin`, before their '@'; npos: there are no such. A password that was
// not encoded may hold '/', '?', '#' and '@'.
std::size_t end_of_user(const std::string& text, std::size_t begin) {
  const std::size_t whole = std::min(text.find_first_of(kEndOfAddress, begin), text.size());
  const std::size_t path = std::min(text.find_first_of("/?#", begin), whole);
  const std::size_t query = std::min(text.find_first_of("?#", begin), whole);
  const auto last_at = [&](std::size_t end) {
    const std::size_t at = end > begin ? text.rfind('@', end - 1) : text.npos;
    return at == text.npos || at < begin ? text.npos : at;
  };
  const std::size_t in_authority = last_at(path);
  if (in_authority != text.npos) {
    const bool has_password = text.find(':', begin) < in_authority;
    return has_password ? last_at(query) : in_authority;
  }
  return is_host_and_port(text.substr(begin, path - begin)) ? text.npos : last_at(whole);
}

// "user:password@host" as a whole word, or as a flag's value.
std::string without_bare_user(std::string text) {
  const std::size_t equals = text.find('=');
  std::size_t begin = equals == text.npos || equals > text.find(':') ? 0 : equals + 1;
  if (text.compare(begin, 2, "//") == 0) begin += 2;
  const std::size_t colon = text.find(':', begin);
  if (colon == text.npos || text.compare(colon, 3, "://") == 0) return text;
  const std::size_t end = text.rfind('@');
  const bool has_blank = text.find_first_of(" \t\n") != text.npos;
  const bool is_of_path = text.find('/', begin) < colon;  // "./a:b@c"
  if (end == text.npos || end < colon || text.find('@', begin) < colon || has_blank || is_of_path) return text;
  const bool is_place = text[colon + 1] == '/';  // "host:/path@2"
  return is_place ? text : text.replace(begin, end - begin, kHiddenSecret);
}

}  // namespace

std::string without_users(std::string text) {
  for (std::size_t at = text.find("://"); at != text.npos; at = text.find("://", at + 1)) {
    const std::size_t begin = at + 3, end = end_of_user(text, begin);
    if (end != text.npos) text.replace(begin, end - begin, kHiddenSecret);
  }
  return without_bare_user(std::move(text));
}

std::string without_hooks(std::string text) {
  for (std::size_t at = text.find("://"); at != text.npos; at = text.find("://", at + 1)) {
    const std::size_t end = std::min(text.find_first_of(kEndOfAddress, at), text.size());
    const std::size_t path = text.find('/', at + 3);
    if (path >= end) continue;
    const std::string address = lower_case(text.substr(at, end - at));
    const bool is_hook = address.find("hook") != text.npos || is_of_bot(address);
    if (is_hook) text.replace(path + 1, end - path - 1, kHiddenSecret);
  }
  return text;
}

}  // namespace lockstep
