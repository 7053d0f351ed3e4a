#include "bench/measure/recorded_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string_view>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {
namespace {

Deadline patience() { return Deadline::after(std::chrono::seconds(30)); }

// Passes on what one end has sent. @return  false once it has closed the connection
bool pass_on(int from, int to, std::string* copy) {
  std::array<char, 4096> block{};
  const ssize_t got = ::recv(from, block.data(), block.size(), MSG_DONTWAIT);
  if (got <= 0) return false;
  const std::string_view bytes(block.data(), static_cast<std::size_t>(got));
  if (copy != nullptr) copy->append(bytes);
  return send_all(to, bytes, patience());
}

}  // namespace

RecordedClient record_client(const SocketAddress& store, const std::string& secret) {
  const Listener relay = listen_at(SocketAddress::tcp("127.0.0.1", 0), patience());
  std::thread member([&] {
    try {
      StoreClient client(relay.address, secret, patience());
      client.set("bench/strangers/recorded", "a value");
      client.finish(patience());
    } catch (const Error&) {  // the relay says why
    }
  });
  RecordedClient recorded;
  pollfd arrival{relay.fd.get(), POLLIN, 0};
  ::poll(&arrival, 1, 30000);
  const UniqueFd client(::accept4(relay.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const Connected server = connect_once(store, true, patience());
  std::array<pollfd, 2> ends{pollfd{client.get(), POLLIN, 0}, pollfd{server.fd.get(), POLLIN, 0}};
  bool open = client && server.fd;
  while (open && ::poll(ends.data(), ends.size(), 30000) > 0) {
    if (ends[1].revents != 0) {
      if (recorded.hello.empty()) recorded.hello = recorded.all;
      open = pass_on(server.fd.get(), client.get(), nullptr);
    }
    if (open && ends[0].revents != 0) open = pass_on(client.get(), server.fd.get(), &recorded.all);
  }
  ::shutdown(client.get(), SHUT_RDWR);
  member.join();
  if (recorded.hello.empty())
    throw Error("the store did not answer a member", store.text(), "run the job by hand and read its messages");
  return recorded;
}

}  // namespace lockstep
