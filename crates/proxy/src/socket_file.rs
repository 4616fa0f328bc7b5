//! The file of a Unix socket: its permissions, the replacement of a stale one, and its removal.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{UnixListener, UnixStream};

use super::listener::BACKLOG;
use crate::address::SocketMode;

/// The file of a Unix socket. Dropping it removes the file, unless another process has replaced it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// The device and the number of the file.
    id: (u64, u64),
}

impl SocketFile {
    /// Listens at a path. Replaces a socket whose process has ended.
    ///
    /// Two processes that start at the same moment with the same path may both replace the file.
    /// The later one wins then.
    pub(super) async fn listen(path: &Path, mode: SocketMode) -> io::Result<(UnixListener, Self)> {
        remove_stale(path).await?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::unix(path)?)?;
        let file = Self {
            path: path.to_owned(),
            id: id(&fs::symlink_metadata(path)?),
        };
        // Clients can't connect before the socket listens, so the permissions are never wider than
        // these.
        fs::set_permissions(path, fs::Permissions::from_mode(mode.bits()))?;
        socket.listen(BACKLOG)?;
        Ok((UnixListener::from_std(OwnedFd::from(socket).into())?, file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A process that has replaced the file listens at this path now.
        let is_ours = fs::symlink_metadata(&self.path).is_ok_and(|found| id(&found) == self.id);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the socket");
        }
    }
}

/// Removes the socket of a process that has ended. Fails if a process listens on it, or if the file
/// is not a socket.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the file exists and is no socket: it is left as it is",
        ));
    }
    match UnixStream::connect(path).await {
        // Its owner has ended. A listener whose queue is full answers `WouldBlock`.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        Ok(_) | Err(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "a process listens on this socket",
        )),
    }
}

fn id(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}
