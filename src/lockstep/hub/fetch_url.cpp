#include "lockstep/hub/fetch_url.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/hub/web_request.h"

namespace lockstep {

std::string fetch_url(const std::string& url, std::size_t most_bytes, Deadline deadline) {
  std::string content;
  const auto take = [&](std::string_view piece) {
    content.append(piece);
    if (content.size() <= most_bytes) return;
    throw Error(fmt::format("more than the {} expected bytes arrived", most_bytes), url, "try another mirror");
  };
  const WebAnswer answer = send_request({url, 0, ""}, take, deadline);
  if (answer.is_complete()) return content;
  throw Error(answer.message, url, "check that this machine reaches the network, and the proxy settings (https_proxy)");
}

}  // namespace lockstep
