#pragma once

#include <string>

namespace lockstep {

/// A new secret for a job: 256 bits from the system's generator as 64 hexadecimal digits.
std::string make_secret();

/// The secret that the user or the launcher gave: the text of LOCKSTEP_SECRET, or the content of the file named by
/// LOCKSTEP_SECRET_FILE without white space around it. Empty if neither is set.
///
/// Only what a program made at random is taken: at least 32 hexadecimal digits, 128 bits. Whoever records a handshake
/// can try guesses of the secret without asking anybody, and finds what a person would choose.
/// @throws Error  if the file cannot be read, belongs to another user or can be read by others, or if the secret is
/// shorter or has other characters; the message never contains the secret
std::string secret_from_environment();

}  // namespace lockstep
