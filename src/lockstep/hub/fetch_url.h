#pragma once

#include <cstddef>
#include <string>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// The content of `url` (https, http or file), fetched by the program `curl`, which honours the user's proxies and
/// certificates. Nothing is written to disk.
/// @param most_bytes  longer content is an error, detected before memory holds it
/// @throws TimeoutError  at `deadline`
/// @throws Error  with curl's own message if the content cannot be fetched, or if there is no `curl`
std::string fetch_url(const std::string& url, std::size_t most_bytes, Deadline deadline);

}  // namespace lockstep
