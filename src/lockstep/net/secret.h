#pragma once

#include <string>

namespace lockstep {

/// A new secret for a job: 256 bits from the system's generator as 64 hexadecimal digits.
std::string make_secret();

/// The secret that the user or the launcher gave: the text of LOCKSTEP_SECRET, or the content of the file named by
/// LOCKSTEP_SECRET_FILE without white space around it. Empty if neither is set.
/// @throws Error  if the file cannot be read, belongs to another user or can be read by others, or if the secret has
/// fewer than 16 characters; the message never contains the secret
std::string secret_from_environment();

}  // namespace lockstep
