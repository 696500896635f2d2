// Preloaded into the process of a task: TensorFlow's server binds its port on all addresses of the machine, and has no
// option for less. A bind to that port and to no address in particular becomes one to the address in $AFO_LISTEN
// ("ADDRESS PORT", the address as IPv6, ::ffff:127.0.0.1 for 127.0.0.1). Every other bind is passed on as it is.
//
// It comes into every program that the task starts: it has no state, allocates nothing, and asks for glibc alone.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

struct Place {
  in6_addr address;
  in_port_t port;  // in network order, and never 0
};

bool read_place(Place* place) {
  const char* text = getenv("AFO_LISTEN");
  const char* space = text == nullptr ? nullptr : strchr(text, ' ');
  char address[INET6_ADDRSTRLEN] = {};
  if (space == nullptr || space - text >= INET6_ADDRSTRLEN) return false;
  memcpy(address, text, static_cast<size_t>(space - text));
  const int port = atoi(space + 1);
  place->port = htons(static_cast<in_port_t>(port));
  return port > 0 && port <= 65535 && inet_pton(AF_INET6, address, &place->address) == 1;
}

// Whether `to` is the place's port on all addresses; it is made the place's own address then.
bool narrow(sockaddr_in6* to, const Place& place) {
  if (to->sin6_port != place.port || !IN6_IS_ADDR_UNSPECIFIED(&to->sin6_addr)) return false;
  to->sin6_addr = place.address;
  return true;
}

bool narrow(sockaddr_in* to, const Place& place) {
  if (to->sin_port != place.port || to->sin_addr.s_addr != INADDR_ANY) return false;
  if (!IN6_IS_ADDR_V4MAPPED(&place.address)) return false;
  memcpy(&to->sin_addr, place.address.s6_addr + 12, sizeof(to->sin_addr));
  return true;
}

int bind_as_it_is(int fd, const void* to, socklen_t length) {
  return static_cast<int>(syscall(SYS_bind, fd, to, length));
}

template <class Address>
int bind_narrowed(int fd, const sockaddr* to, socklen_t length, const Place& place) {
  Address own;
  if (length < sizeof(own)) return bind_as_it_is(fd, to, length);
  memcpy(&own, to, sizeof(own));
  return narrow(&own, place) ? bind_as_it_is(fd, &own, sizeof(own)) : bind_as_it_is(fd, to, length);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int bind(int fd, const sockaddr* to, socklen_t length) noexcept {
  Place place;
  if (to == nullptr || length < sizeof(sa_family_t) || !read_place(&place)) return bind_as_it_is(fd, to, length);
  if (to->sa_family == AF_INET6) return bind_narrowed<sockaddr_in6>(fd, to, length, place);
  if (to->sa_family == AF_INET) return bind_narrowed<sockaddr_in>(fd, to, length, place);
  return bind_as_it_is(fd, to, length);
}
