#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// One request for a file, made by the program `curl`, which honours the user's proxies and certificates.
struct WebRequest {
  std::string url;             ///< https, http or file
  std::int64_t from_byte = 0;  ///< the bytes before it are not asked for
  std::string bearer_token;    ///< for the host of `url` alone, not for those that it redirects to; empty: none
};

/// How a request ended.
struct WebAnswer {
  int curl_code = 0;       ///< curl's exit code: 0 if all of the file came
  int status = 0;          ///< HTTP's, of the last redirection; 0 if no server answered
  std::string error_code;  ///< the Hugging Face Hub's word for a refusal, from the header X-Error-Code
  std::string message;     ///< curl's own words about a failure

  bool is_complete() const { return curl_code == 0; }
  /// The server cannot send a file from its middle on.
  bool lacks_ranges() const;
};

/// Sends `request` and passes the content on piece by piece. A refusal's page is not content.
/// @param take  gets every piece; if it throws, the transfer ends
/// @throws TimeoutError  at `deadline`. @throws Error  if there is no `curl`
WebAnswer send_request(const WebRequest& request, const std::function<void(std::string_view)>& take, Deadline deadline);

}  // namespace lockstep
