#pragma once

#include <string>

#include "lockstep/net/sockets/resolve.h"

namespace lockstep {

/// Whether LOCKSTEP_ENCRYPT is 1: everything that this process sends over TCP is to be encrypted.
/// @throws Error  if the variable is not a switch
bool encryption_is_demanded();

/// Whether this process asks for encryption of a connection to `peer`. A connection is encrypted if one of its sides
/// asks. LOCKSTEP_ENCRYPT decides for all; without it, connections to addresses that routers carry beyond private
/// networks are (all but those of RFC 1918, 3927, 4193 and 6598, loopback and link-local).
bool asks_for_encryption(const IpAddress& peer);

/// The same for the other end of a connected socket. A Unix socket needs none.
bool asks_for_encryption(int fd);

/// Refuses to encrypt without a secret, which would keep nothing from anybody.
/// @param address  of a store over TCP
/// @throws Error  if encryption is demanded, and `secret` is empty
void check_encryption_has_secret(const std::string& secret, const std::string& address);

}  // namespace lockstep
