//! A store of things that come and go, each known by a number.

/// The store. A number is used again after its thing was taken away.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    things: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { things: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.things[id as usize] = Some(thing);
                id
            }
            None => {
                self.things.push(Some(thing));
                u32::try_from(self.things.len() - 1).expect("fewer than 2^32 things at a time")
            }
        }
    }

    /// # Panics
    /// If there is none of this number: that would be a mistake of the model.
    pub fn get(&self, id: u32) -> &T {
        self.things[id as usize].as_ref().expect("it is still there")
    }

    /// As [`Slab::get`].
    pub fn get_mut(&mut self, id: u32) -> &mut T {
        self.things[id as usize].as_mut().expect("it is still there")
    }

    /// As [`Slab::get`].
    pub fn remove(&mut self, id: u32) -> T {
        self.free.push(id);
        self.things[id as usize].take().expect("it is still there")
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.things.len() - self.free.len()
    }
}
