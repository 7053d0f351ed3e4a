#pragma once

#include <sys/un.h>

#include <string>

namespace lockstep {

/// The kernel's form of a Unix socket's path. @throws Error  if it is too long for the kernel
sockaddr_un unix_address(const std::string& path);

}  // namespace lockstep
