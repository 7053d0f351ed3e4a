#include "lockstep/net/environment/init_method.h"

#include <algorithm>
#include <charconv>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_method(const std::string& text, const std::string& reason) {
  throw Error("init_method \"" + text + "\" cannot be used: " + reason, "rendezvous",
              "write env://, tcp://host:port or file:///path; ?rank=0&world_size=2 may follow the latter two");
}

int whole_number(const std::string& digits, const std::string& text) {
  int value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, status] = std::from_chars(digits.data(), end, value);
  if (status != std::errc() || stop != end) refuse_method(text, "\"" + digits + "\" is not a whole number");
  return value;
}

void parse_query(const std::string& query, const std::string& text, InitMethod& method) {
  for (std::size_t begin = 0; begin < query.size();) {
    const std::size_t end = std::min(query.find('&', begin), query.size());
    const std::string item = query.substr(begin, end - begin);
    if (item.rfind("rank=", 0) == 0) {
      method.rank = whole_number(item.substr(5), text);
    } else if (item.rfind("world_size=", 0) == 0) {
      method.world_size = whole_number(item.substr(11), text);
    } else {
      refuse_method(text, "\"" + item + "\" is unknown");
    }
    begin = end + 1;
  }
}

}  // namespace

InitMethod InitMethod::parse(const std::string& text) {
  InitMethod method;
  const std::size_t question = text.find('?');
  const std::string base = text.substr(0, question);
  if (question != std::string::npos) parse_query(text.substr(question + 1), text, method);
  if (base == "env://") {
    if (question != std::string::npos) refuse_method(text, "env:// takes rank and world_size from RANK and WORLD_SIZE");
  } else if (base.rfind("tcp://", 0) == 0) {
    method.kind = Kind::Tcp;
    method.address = SocketAddress::parse("tcp:" + base.substr(6));
    if (method.address.port == 0) refuse_method(text, "the other ranks cannot know which port 0 will become");
  } else if (base.rfind("file://", 0) == 0) {
    method.kind = Kind::File;
    method.path = base.substr(7);
    if (method.path.size() < 2 || method.path[0] != '/') refuse_method(text, "the path must be absolute");
  } else {
    refuse_method(text, "it begins with none of env://, tcp://, file://");
  }
  return method;
}

}  // namespace lockstep
