//! The server: HTTP, websockets, pages and the admin socket.

mod admin;
mod hostile_requests;
mod http;
mod operations;
mod playground;
mod sockets;
mod transport;
